-- +goose Up
-- The bots and channels whose messages a node answers, with spaces between them: api: telegram:7000001.
ALTER TABLE nodes ADD COLUMN serves text COLLATE "C" NOT NULL DEFAULT '';
