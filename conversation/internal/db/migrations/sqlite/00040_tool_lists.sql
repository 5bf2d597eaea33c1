-- +goose Up
-- The tools that each server of tools listed last, so that the model is offered the same ones
-- after a restart, before the server runs.
CREATE TABLE tool_lists (
    server     TEXT PRIMARY KEY, -- its name in the configuration
    settings   TEXT NOT NULL,    -- a hash of what it was started with
    tools      TEXT NOT NULL,    -- JSON
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
