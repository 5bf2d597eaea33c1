-- +goose Up
-- Search finds what tools were called with, and takes less room.

-- The index holds words as words.go makes them, and no copy of the texts. calls
-- are the words of a message's tool calls, place has the tokens of index.go, and
-- the rowid is conversation_id << 24 | seq.
DROP TABLE messages_fts;
CREATE VIRTUAL TABLE messages_fts USING fts5 (words, parts, calls, place, content = '', contentless_delete = 1, tokenize = 'ascii');
UPDATE cursors SET value = 0 WHERE name = 'messages_fts'; -- all of it is indexed again
