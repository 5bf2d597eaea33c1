-- +goose Up
-- What programs and pages in a browser need beside the chats of platforms.

ALTER TABLE sessions ADD COLUMN metadata TEXT; -- JSON object, null for none
ALTER TABLE messages ADD COLUMN metadata TEXT; -- JSON object, null for none

-- Where a reply is kept for whoever asks, and not sent: what was asked, hashed.
-- Null where it is sent.
ALTER TABLE inbox ADD COLUMN fingerprint TEXT;
CREATE INDEX inbox_kept ON inbox (run_id) WHERE fingerprint IS NOT NULL;

-- The state of a reply that is kept is 'kept'.
ALTER TABLE outbox ADD COLUMN through INTEGER; -- of a kept one: seq of the newest message behind its run
ALTER TABLE outbox ADD COLUMN notice INTEGER NOT NULL DEFAULT 0; -- a kept one that no message holds
CREATE INDEX outbox_texts ON outbox (run_id) WHERE state IN ('kept', 'failed');
CREATE INDEX outbox_notices ON outbox (session_id, id) WHERE notice = 1;

-- Files that came without a platform that holds them, until a run has read them.
CREATE TABLE uploads (
    id         INTEGER PRIMARY KEY,
    ref        TEXT NOT NULL UNIQUE, -- random
    session    TEXT NOT NULL, -- key of the session that it is for, which may not be stored yet
    name       TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size       INTEGER NOT NULL, -- bytes
    state      TEXT NOT NULL, -- coming, ready, accepted: named by a waiting inbound, taken
    created_at INTEGER NOT NULL
);
CREATE INDEX uploads_taken ON uploads (id) WHERE state = 'taken';
CREATE TABLE upload_pieces (
    upload_id INTEGER NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    n         INTEGER NOT NULL, -- from 0
    data      BLOB NOT NULL,
    PRIMARY KEY (upload_id, n)
);

-- What a program has appended under an id of its own, so that it can repeat it.
CREATE TABLE appends (
    id              INTEGER PRIMARY KEY,
    session_id      INTEGER NOT NULL REFERENCES sessions (id),
    source_id       TEXT NOT NULL,
    fingerprint     TEXT NOT NULL,
    conversation_id INTEGER NOT NULL, -- which may be deleted
    first_seq       INTEGER NOT NULL,
    messages        INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    UNIQUE (session_id, source_id)
);

-- Who has written in a conversation.
CREATE TABLE participants (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    user_id         TEXT NOT NULL, -- the platform's
    name            TEXT NOT NULL,
    PRIMARY KEY (conversation_id, user_id)
) WITHOUT ROWID;
INSERT OR IGNORE INTO participants (conversation_id, user_id, name)
SELECT conversation_id, sender ->> 'id', coalesce(sender ->> 'name', '') FROM messages WHERE sender ->> 'id' <> ''
UNION ALL
SELECT r.conversation_id, i.sender ->> 'id', coalesce(i.sender ->> 'name', '')
FROM inbox i JOIN runs r ON r.id = i.run_id WHERE r.conversation_id IS NOT NULL AND i.sender ->> 'id' <> '';
