-- +goose Up
-- Why an answer is not whole: length or content_filter, in the words of the chat
-- completions API. Null for a whole one.

ALTER TABLE messages ADD COLUMN finish_reason TEXT;
ALTER TABLE runs ADD COLUMN finish_reason TEXT; -- of its last message
