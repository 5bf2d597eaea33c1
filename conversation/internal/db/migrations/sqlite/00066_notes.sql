-- +goose Up
-- What the model was told in front of a user message when it was asked: JSON, null for nothing.
-- It is told the same with the message in every later call.
ALTER TABLE messages ADD COLUMN note TEXT;
