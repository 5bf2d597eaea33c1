-- +goose Up
-- Search ranks all messages of a session, and finds the other forms of a word.

-- Tokens of what was said, and of what tools were called with and gave: each word
-- and its stems with the level of its impact, as fulltext.RankTokens makes them.
-- place and the rowid are those of messages_fts. Positions are not kept: phrases
-- are looked for in messages_fts.
CREATE VIRTUAL TABLE messages_ranks USING fts5 (said, used, place,
    content = '', contentless_delete = 1, detail = 'column', tokenize = 'ascii');
-- +goose StatementBegin
CREATE TRIGGER messages_ranks_delete AFTER DELETE ON messages BEGIN
    DELETE FROM messages_ranks WHERE rowid = old.conversation_id << 24 | old.seq;
END;
-- +goose StatementEnd
INSERT INTO cursors (name, value, updated_at) VALUES ('messages_ranks', 0, 0); -- the newest message that is in it
