-- +goose Up
-- What was told by a number or a text with another meaning has a column of its own. No
-- statement reads a row, so that a damaged page does not keep the database from being opened.

-- 1 when the message was taken back before a run settled it; run_id is 0 then, of no run.
-- In rows from before only run_id says so.
ALTER TABLE inbox ADD COLUMN withdrawn INTEGER NOT NULL DEFAULT 0;

-- 1 when the reply is kept for whoever asks, 0 when it is sent. Null in rows from before:
-- there those with a fingerprint are kept.
ALTER TABLE inbox ADD COLUMN keep INTEGER;

-- The message whose turn this one replaces: the uuid of its conversation and its seq. Null
-- for a message that replaces nothing.
ALTER TABLE inbox ADD COLUMN replaces_conversation TEXT;
ALTER TABLE inbox ADD COLUMN replaces_seq INTEGER;
