-- +goose Up
-- Files and pictures that came with messages, kept whole. The bytes of equal files are
-- kept once. Pictures of earlier versions stay in the table images.

CREATE TABLE blobs (
    id         INTEGER PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE, -- SHA-256 of the bytes, in hexadecimal; something else while it is being deleted
    size       INTEGER NOT NULL, -- bytes
    media_type TEXT NOT NULL, -- as the bytes show
    path       TEXT NOT NULL DEFAULT '', -- name in the folder beside the database; '' = the bytes are in blob_pieces
    created_at INTEGER NOT NULL
);
CREATE TABLE blob_pieces (
    blob_id INTEGER NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    n       INTEGER NOT NULL, -- from 0
    data    BLOB NOT NULL,
    PRIMARY KEY (blob_id, n)
);

-- What was made of a blob, once: its text, or a smaller picture for the model.
CREATE TABLE blob_forms (
    blob_id    INTEGER NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    form       TEXT NOT NULL, -- text, picture
    media_type TEXT NOT NULL,
    data       BLOB NOT NULL,
    problem    TEXT NOT NULL DEFAULT '', -- why it can't be made, in words
    PRIMARY KEY (blob_id, form)
);

-- The files of messages.
CREATE TABLE files (
    id         INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    inbox_id   INTEGER, -- the inbound that it came with, until a run settles that
    message_id INTEGER REFERENCES messages (id) ON DELETE CASCADE, -- from then on
    n          INTEGER NOT NULL, -- place among the files of the inbound, from 0
    name       TEXT NOT NULL,
    media_type TEXT NOT NULL, -- as its sender or platform says
    size       INTEGER NOT NULL, -- bytes, likewise; 0 = not said
    blob_id    INTEGER REFERENCES blobs (id), -- null while it could not be fetched
    source     TEXT, -- JSON: from where it is fetched; null for one that is here or is not fetched again
    attempts   INTEGER NOT NULL DEFAULT 0, -- to fetch it, that failed
    next_at    INTEGER, -- of the next attempt; set until a run has told of it; null = there is none
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX files_inbox ON files (inbox_id, n) WHERE inbox_id IS NOT NULL;
CREATE INDEX files_message ON files (message_id);
CREATE INDEX files_blob ON files (blob_id);
CREATE INDEX files_session ON files (session_id, id);
CREATE INDEX files_missing ON files (session_id, next_at) WHERE next_at IS NOT NULL;

CREATE TABLE unused_blobs (blob_id INTEGER PRIMARY KEY); -- that may have no file any more
CREATE TABLE unused_paths (path TEXT PRIMARY KEY) WITHOUT ROWID; -- in the folder, whose blobs are deleted
-- +goose StatementBegin
CREATE TRIGGER files_delete AFTER DELETE ON files WHEN old.blob_id IS NOT NULL BEGIN
    INSERT OR IGNORE INTO unused_blobs (blob_id) VALUES (old.blob_id);
END;
-- +goose StatementEnd
