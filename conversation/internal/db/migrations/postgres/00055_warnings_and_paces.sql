-- +goose Up
-- What readers of a run's answer should know beside it, a JSON list of Markdown, null for
-- nothing.
ALTER TABLE runs ADD COLUMN warnings text COLLATE "C";
ALTER TABLE imported_runs ADD COLUMN warnings text COLLATE "C";

-- Whether the message's person had one of their answers of the minute for it.
ALTER TABLE inbox ADD COLUMN had_turn bigint NOT NULL DEFAULT 0;

-- When people have all answers of a minute again, while messages_per_minute is set. Who has no
-- row has them all.
CREATE TABLE paces (
    person  text COLLATE "C" PRIMARY KEY, -- telegram:42 or the like
    full_at bigint NOT NULL               -- milliseconds
);
CREATE INDEX paces_full ON paces (full_at);
