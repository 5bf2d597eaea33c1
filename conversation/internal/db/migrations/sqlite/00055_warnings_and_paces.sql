-- +goose Up
-- What readers of a run's answer should know beside it, a JSON list of Markdown, null for
-- nothing: that most of a budget is used, that a fallback model has answered, that a file could
-- not be read.
ALTER TABLE runs ADD COLUMN warnings TEXT;
ALTER TABLE imported_runs ADD COLUMN warnings TEXT;

-- Whether the message's person had one of their answers of the minute for it, while
-- messages_per_minute is set. It is not counted again when its run is repeated after a crash.
ALTER TABLE inbox ADD COLUMN had_turn INTEGER NOT NULL DEFAULT 0;

-- When people have all answers of a minute again, while messages_per_minute is set. Who has no
-- row has them all.
CREATE TABLE paces (
    person  TEXT PRIMARY KEY, -- telegram:42 or the like
    full_at INTEGER NOT NULL  -- milliseconds
) WITHOUT ROWID;
CREATE INDEX paces_full ON paces (full_at);
