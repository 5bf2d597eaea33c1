-- +goose Up
-- The runs of imported conversations, as they were where they were made. They are apart from
-- runs, whose ids are those of this database's inbox. New runs get higher ids than these.
CREATE TABLE imported_runs (
    conversation_id   INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    id                INTEGER NOT NULL, -- as in messages.run_id
    kind              TEXT NOT NULL,
    status            TEXT NOT NULL,
    model             TEXT NOT NULL,
    rounds            INTEGER NOT NULL,
    prompt_tokens     INTEGER NOT NULL,
    cached_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    error             TEXT NOT NULL,
    started_at        INTEGER NOT NULL,
    ended_at          INTEGER NOT NULL,
    sender            TEXT,
    messages          INTEGER NOT NULL,
    steps             TEXT,
    finish_reason     TEXT,
    new_conversation  INTEGER NOT NULL,
    instructions      TEXT,
    PRIMARY KEY (conversation_id, id)
) WITHOUT ROWID;

-- The instructions that were in force in runs of a conversation, each list once.
CREATE TABLE run_instructions (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    hash            TEXT NOT NULL, -- SHA-256 of the list in hexadecimal
    list            TEXT NOT NULL, -- JSON list of texts
    PRIMARY KEY (conversation_id, hash)
) WITHOUT ROWID;

-- The hash of the instructions that were in force; null for none, and for runs from before
-- they were recorded.
ALTER TABLE runs ADD COLUMN instructions TEXT;
