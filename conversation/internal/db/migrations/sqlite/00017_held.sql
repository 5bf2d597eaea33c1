-- +goose Up
-- A reply that its platform fails on while it takes others is set aside, and the
-- later ones of its session go on.

ALTER TABLE outbox ADD COLUMN held_at INTEGER; -- of a due one: since when it is set aside, null while it is not
