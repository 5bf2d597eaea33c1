-- +goose Up
-- 1 when the run began a conversation since the one before it was over: it had rested for
-- long, or had very many messages. Programs are told so beside the answer. 0 in older rows.

ALTER TABLE runs ADD COLUMN new_conversation INTEGER NOT NULL DEFAULT 0;
