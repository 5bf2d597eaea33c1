-- +goose Up
-- Times are milliseconds since 1970, order is an integer sequence, JSON is text.

CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,
    channel    TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE TABLE conversations (
    id         INTEGER PRIMARY KEY,
    uuid       TEXT NOT NULL UNIQUE,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    title      TEXT NOT NULL DEFAULT '',
    active     INTEGER NOT NULL DEFAULT 1,
    messages   INTEGER NOT NULL DEFAULT 0, -- rows, and the seq of the newest
    tokens     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX conversations_active ON conversations (session_id) WHERE active = 1;
CREATE INDEX conversations_session ON conversations (session_id, id);

-- A run has the id of the first inbound message that it took.
CREATE TABLE runs (
    id                INTEGER PRIMARY KEY,
    session_id        INTEGER NOT NULL REFERENCES sessions (id),
    conversation_id   INTEGER REFERENCES conversations (id) ON DELETE SET NULL,
    kind              TEXT NOT NULL, -- agent, command
    status            TEXT NOT NULL, -- done, failed, stopped
    model             TEXT NOT NULL DEFAULT '',
    rounds            INTEGER NOT NULL DEFAULT 0,
    prompt_tokens     INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0,
    error             TEXT NOT NULL DEFAULT '',
    started_at        INTEGER NOT NULL,
    ended_at          INTEGER NOT NULL
);
CREATE INDEX runs_conversation ON runs (conversation_id);

CREATE TABLE messages (
    id              INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,
    run_id          INTEGER NOT NULL,
    role            TEXT NOT NULL, -- user, assistant, tool
    state           TEXT NOT NULL DEFAULT '', -- stopped: cut short; replaced: answered anew by /retry
    content         TEXT NOT NULL,
    parts           TEXT, -- images and files beside the text
    tool_calls      TEXT,
    tool_call_id    TEXT,
    tool_name       TEXT,
    internal        INTEGER NOT NULL DEFAULT 0,
    tokens          INTEGER NOT NULL,
    sender          TEXT,
    source_id       TEXT,
    created_at      INTEGER NOT NULL,
    UNIQUE (conversation_id, seq)
);

CREATE VIRTUAL TABLE messages_fts USING fts5 (content, content = 'messages', content_rowid = 'id');
-- Rows are added a moment after their commit, many at once: see index.go.
-- +goose StatementBegin
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages WHEN old.content <> '' BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content) VALUES ('delete', old.id, old.content);
END;
-- +goose StatementEnd

CREATE TABLE inbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    channel    TEXT NOT NULL,
    source_id  TEXT NOT NULL,
    address    TEXT NOT NULL,
    sender     TEXT,
    in_group   INTEGER NOT NULL DEFAULT 0,
    text       TEXT NOT NULL, -- while it waits: then it stands in messages
    sent_at    INTEGER NOT NULL,
    run_id     INTEGER, -- the run that settled it, null while it waits
    UNIQUE (channel, source_id)
);
CREATE INDEX inbox_waiting ON inbox (session_id, id) WHERE run_id IS NULL;

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    run_id     INTEGER NOT NULL,
    address    TEXT NOT NULL,
    text       TEXT NOT NULL, -- until it is sent
    state      TEXT NOT NULL DEFAULT 'due', -- due, sent, failed
    sent       TEXT NOT NULL DEFAULT '[]',  -- the platform's ids of the parts it has taken
    attempts   INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
);
CREATE INDEX outbox_due ON outbox (session_id, id) WHERE state = 'due';
CREATE INDEX outbox_failed ON outbox (session_id, id) WHERE state = 'failed';

CREATE TABLE cursors (
    name       TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO cursors (name, value, updated_at) VALUES ('messages_fts', 0, 0); -- the newest message that is indexed
