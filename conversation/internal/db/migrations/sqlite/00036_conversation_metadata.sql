-- +goose Up
-- What a program notes of a conversation, as sessions and messages have it.
ALTER TABLE conversations ADD COLUMN metadata TEXT; -- JSON object, null for none
