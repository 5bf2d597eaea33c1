-- +goose Up
-- Search in any script, in one session as fast as over everything.

-- The index holds words as words.go makes them, and no copy of the texts.
-- place has the tokens s<session id> and c<conversation id>, and "tool" for a
-- tool's result. The rowid is conversation_id << 24 | seq: what is said in one
-- place lies together, and a search in it does not read what is elsewhere.
DROP TRIGGER messages_fts_delete;
DROP TABLE messages_fts;
CREATE VIRTUAL TABLE messages_fts USING fts5 (words, parts, place, content = '', contentless_delete = 1, tokenize = 'ascii');
-- +goose StatementBegin
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.conversation_id << 24 | old.seq;
END;
-- +goose StatementEnd
UPDATE cursors SET value = 0 WHERE name = 'messages_fts'; -- all of it is indexed again

-- How many exchanges there are up to a message, for some messages of a
-- conversation: an exchange's number is counted from the nearest one.
CREATE TABLE exchange_counts (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,
    exchanges       INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, seq)
) WITHOUT ROWID;
-- An exchange that is taken back counts no longer.
-- +goose StatementBegin
CREATE TRIGGER exchange_counts_undo AFTER UPDATE OF state ON messages WHEN new.state = 'undone' BEGIN
    DELETE FROM exchange_counts WHERE conversation_id = new.conversation_id AND seq >= new.seq;
END;
-- +goose StatementEnd
