-- +goose Up
-- What a node tells of itself, the last two with each renewal.
ALTER TABLE nodes ADD COLUMN schema bigint NOT NULL DEFAULT 0; -- the newest version of the schema that its gateway knows
ALTER TABLE nodes ADD COLUMN runs bigint NOT NULL DEFAULT 0;   -- that call the model
ALTER TABLE nodes ADD COLUMN slots bigint NOT NULL DEFAULT 0;  -- how many runs may do so at a time

-- Which gateways work with this schema: those that know at least the version `oldest` of it. A later
-- migration that older gateways can't work with sets it to its own number; it is not applied while
-- one of them runs.
CREATE TABLE compatibility (
    id     bigint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    oldest bigint NOT NULL
);
INSERT INTO compatibility (oldest) VALUES (62);
