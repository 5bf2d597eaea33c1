-- +goose Up
-- Search finds what long files say, and uploads have keys.

-- Pages of the texts of files, as far as their messages do not hold the texts. Each has a
-- row in messages_fts and messages_ranks: conversation_id << 24 | 1 << 23 | n.
CREATE TABLE file_pages (
    id      INTEGER PRIMARY KEY, -- the row in the index
    file_id INTEGER REFERENCES files (id) ON DELETE SET NULL, -- null: the row of the index is to be deleted
    page    INTEGER NOT NULL -- of the file, from 0
);
CREATE INDEX file_pages_file ON file_pages (file_id, page);

-- Files whose pages are missing in the index, or are made anew.
CREATE TABLE unread_files (
    file_id INTEGER PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,
    page    INTEGER NOT NULL DEFAULT -1 -- the next one; -1 = nothing was looked at yet
);
INSERT INTO unread_files (file_id) SELECT id FROM files WHERE message_id IS NOT NULL AND blob_id IS NOT NULL;
-- +goose StatementBegin
CREATE TRIGGER files_read AFTER UPDATE OF message_id, blob_id ON files WHEN new.message_id IS NOT NULL AND new.blob_id IS NOT NULL BEGIN
    INSERT OR REPLACE INTO unread_files (file_id) VALUES (new.id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER blob_forms_read AFTER INSERT ON blob_forms WHEN new.form = 'text' BEGIN
    INSERT OR REPLACE INTO unread_files (file_id) SELECT id FROM files WHERE blob_id = new.blob_id AND message_id IS NOT NULL;
END;
-- +goose StatementEnd

-- What a program uploads again with the same key is not stored again.
ALTER TABLE uploads ADD COLUMN key TEXT; -- the Idempotency-Key; null = none
ALTER TABLE uploads ADD COLUMN hash TEXT NOT NULL DEFAULT ''; -- SHA-256 of the bytes, in hexadecimal, where there is a key
CREATE UNIQUE INDEX uploads_key ON uploads (session, key) WHERE key IS NOT NULL;
