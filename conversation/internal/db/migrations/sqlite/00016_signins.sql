-- +goose Up
-- Browsers that are signed in, codes that sign one in, and the HTTP server that
-- takes them.

CREATE TABLE signins (
    id         TEXT PRIMARY KEY, -- hash of what the browser's cookie holds
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE TABLE signin_codes (
    hash       TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE TABLE http_server (
    id         INTEGER PRIMARY KEY CHECK (id = 1), -- of the process that serves, the latest that started
    urls       TEXT NOT NULL, -- JSON list of addresses under which people find it
    token      TEXT NOT NULL CHECK (token IN ('made', 'configured', 'none')), -- where its token comes from
    started_at INTEGER NOT NULL
);
