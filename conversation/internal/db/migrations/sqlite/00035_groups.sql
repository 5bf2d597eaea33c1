-- +goose Up
-- What people said in groups and not to the bot, kept apart from the conversations:
-- the next message to the bot takes it along, and a tool finds it.

CREATE TABLE group_talk (
    id         INTEGER PRIMARY KEY,
    session    TEXT NOT NULL, -- its key; there need be no row of sessions
    source_id  TEXT NOT NULL, -- the platform's id of the message
    sender     TEXT NOT NULL, -- JSON
    text       TEXT NOT NULL,
    shown      INTEGER NOT NULL DEFAULT 0, -- a message to the bot has taken it along
    created_at INTEGER NOT NULL,
    UNIQUE (source_id, session)
);
CREATE INDEX group_talk_session ON group_talk (session, id);

-- The groups and servers of each bot, as its platform told of them.
CREATE TABLE bot_groups (
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    group_id   TEXT NOT NULL, -- of the platform
    name       TEXT NOT NULL DEFAULT '',
    state      TEXT NOT NULL, -- member, removed
    since      INTEGER, -- of the state; null where nobody told
    by_id      TEXT NOT NULL DEFAULT '', -- who has added or removed the bot, '' where nobody told
    by_name    TEXT NOT NULL DEFAULT '',
    lacks      TEXT NOT NULL DEFAULT '[]', -- JSON: what the bot may not do there, in words
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (channel, account, group_id)
) WITHOUT ROWID;
