-- +goose Up
-- Messages that are never commands, places that moved, names that are bound.

ALTER TABLE inbox ADD COLUMN never_command INTEGER NOT NULL DEFAULT 0;

-- Places to which the platform gave another id. What is written there belongs to
-- the session that the place had before.
CREATE TABLE moved_places (
    place    TEXT PRIMARY KEY, -- its key now
    former   TEXT NOT NULL, -- its key before
    session  TEXT NOT NULL, -- key of the session that it belongs to
    moved_at INTEGER NOT NULL
) WITHOUT ROWID;

-- The names that allow holds, each with whoever used it first.
CREATE TABLE bound_names (
    channel  TEXT NOT NULL,
    name     TEXT NOT NULL, -- "@ada", in lower case
    holder   TEXT NOT NULL, -- the platform's id of the account, or of the group
    bound_at INTEGER NOT NULL,
    PRIMARY KEY (channel, name)
) WITHOUT ROWID;
