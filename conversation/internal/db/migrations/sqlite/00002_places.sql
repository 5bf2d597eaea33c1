-- +goose Up
-- Files, edits and names of places; who was let in; how the channels fare.

ALTER TABLE sessions ADD COLUMN place TEXT NOT NULL DEFAULT ''; -- as people call it

ALTER TABLE conversations ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0; -- its rows are being swept away
CREATE INDEX conversations_deleted ON conversations (id) WHERE deleted = 1;

-- Ids are not drawn from a sequence of their own, which would cost every
-- message a page on disk: whoever deletes old rows keeps the newest.
CREATE TABLE inbox_new (
    id          INTEGER PRIMARY KEY,
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    channel     TEXT NOT NULL,
    source_id   TEXT NOT NULL,
    address     TEXT NOT NULL, -- while it waits
    sender      TEXT,
    in_group    INTEGER NOT NULL DEFAULT 0,
    title       TEXT NOT NULL DEFAULT '', -- of a conversation that begins with the message
    text        TEXT NOT NULL, -- while it waits: then it stands in messages
    attachments TEXT, -- JSON, null for none
    note        INTEGER NOT NULL DEFAULT 0, -- told with the next message, no run of its own
    revision    INTEGER NOT NULL DEFAULT 0, -- edits while it waited
    sent_at     INTEGER NOT NULL,
    run_id      INTEGER, -- the run that settled it, 0 when it was withdrawn, null while it waits
    UNIQUE (channel, source_id)
);
INSERT INTO inbox_new (id, session_id, channel, source_id, address, sender, in_group, text, sent_at, run_id)
SELECT id, session_id, channel, source_id, address, sender, in_group, text, sent_at, run_id FROM inbox;
DROP TABLE inbox;
ALTER TABLE inbox_new RENAME TO inbox;
CREATE INDEX inbox_waiting ON inbox (session_id, id) WHERE run_id IS NULL;

CREATE TABLE outbox_new (
    id         INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    run_id     INTEGER NOT NULL,
    address    TEXT NOT NULL, -- until it is sent
    text       TEXT NOT NULL, -- until it is sent
    actions    TEXT, -- JSON, null for none
    state      TEXT NOT NULL DEFAULT 'due', -- due, sent, failed
    sent       TEXT NOT NULL DEFAULT '[]',  -- the platform's ids of the parts it has taken
    attempts   INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
);
INSERT INTO outbox_new (id, session_id, run_id, address, text, state, sent, attempts, error, created_at)
SELECT id, session_id, run_id, address, text, state, sent, attempts, error, created_at FROM outbox;
DROP TABLE outbox;
ALTER TABLE outbox_new RENAME TO outbox;
CREATE INDEX outbox_due ON outbox (session_id, id) WHERE state = 'due';
CREATE INDEX outbox_failed ON outbox (session_id, id) WHERE state = 'failed';

CREATE TABLE images (
    message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    n          INTEGER NOT NULL, -- place in the message's parts, from 0
    data       BLOB NOT NULL,
    PRIMARY KEY (message_id, n)
);

CREATE TABLE pairings (
    id          INTEGER PRIMARY KEY,
    channel     TEXT NOT NULL,
    user_id     TEXT NOT NULL, -- the platform's
    name        TEXT NOT NULL,
    code        TEXT UNIQUE, -- null once approved
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL, -- of the code
    approved_at INTEGER, -- null while it is asked for
    UNIQUE (channel, user_id)
);

CREATE TABLE channel_health (
    channel    TEXT PRIMARY KEY,
    state      TEXT NOT NULL, -- connecting, serving, interrupted, ended
    detail     TEXT NOT NULL,
    changed_at INTEGER NOT NULL
) WITHOUT ROWID;
