-- +goose Up
-- The pictures that go along with a reply, as a JSON list of id (of files), name and media
-- type. Null for none.

ALTER TABLE outbox ADD COLUMN pictures TEXT;
