-- +goose Up
-- Vectors of messages, by which search finds what is said in other words.

-- The ids are those of messages_fts: conversation_id << 24 | seq. So the vectors of a
-- conversation stand together, and a search in it reads no others.
CREATE TABLE vectors (
    id         INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL, -- that of embeddings by which it was made
    vector     BLOB NOT NULL     -- as the package vectors writes it
);
-- Of each dimension the sign alone: of a long session, these are compared first.
CREATE TABLE vector_signs (
    id         INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    signs      BLOB NOT NULL -- as the package vectors writes it
);
-- +goose StatementBegin
CREATE TRIGGER vectors_delete AFTER DELETE ON messages BEGIN
    DELETE FROM vectors WHERE id = old.conversation_id << 24 | old.seq;
    DELETE FROM vector_signs WHERE id = old.conversation_id << 24 | old.seq;
END;
-- +goose StatementEnd

-- The model that makes the vectors, how far it has come, and who is at it.
CREATE TABLE embeddings (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    generation    INTEGER NOT NULL, -- counts the models
    model         TEXT NOT NULL,
    dimensions    INTEGER NOT NULL, -- that were asked for; 0 = as many as the model has
    length        INTEGER NOT NULL, -- of the vectors; 0 = not known before the first
    done          INTEGER NOT NULL, -- the newest message (messages.id) that needs no vector any more
    owner         TEXT NOT NULL,    -- who makes the next ones: process/name; '' = nobody
    claimed_until INTEGER NOT NULL  -- when its claim ends
);
