-- +goose Up
-- What had to be read out of a text, or out of a number with another meaning, has a
-- column of its own. Neither statement reads a row, so that a damaged page does not
-- keep the database from being opened.

-- Of a tool's result: 1 when the call failed, 0 when not. Null in rows from before:
-- there the content of a failure begins with "error: ".
ALTER TABLE messages ADD COLUMN failed INTEGER;

-- 1 while an import writes the conversation. It is deleted, too, so that nobody sees
-- it, but its rows are not swept away. Before, deleted was 2.
ALTER TABLE conversations ADD COLUMN staged INTEGER NOT NULL DEFAULT 0;
