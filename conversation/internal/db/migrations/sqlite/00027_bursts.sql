-- +goose Up
-- Messages that belong together, and what was said before them in the place and not
-- to the bot.

ALTER TABLE inbox ADD COLUMN album TEXT; -- the platform's id of messages that were sent as one; null for one by itself
ALTER TABLE inbox ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0; -- milliseconds that the run waits for more
ALTER TABLE inbox ADD COLUMN overheard TEXT; -- null for nothing, and once a run has settled it

-- Albums of which a message was accepted: the others belong to it, whenever they come.
CREATE TABLE albums (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    album TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (channel, account, album)
) WITHOUT ROWID;
