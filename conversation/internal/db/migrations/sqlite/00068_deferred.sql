-- +goose Up
-- A message that waits because its model could not be called: since when, when it is tried again at the earliest, and the
-- name of that model. Null for a message that was not tried.
ALTER TABLE inbox ADD COLUMN deferred_since INTEGER;
ALTER TABLE inbox ADD COLUMN deferred_until INTEGER;
ALTER TABLE inbox ADD COLUMN deferred_model TEXT;
