-- +goose Up
-- A message that waits because its model could not be called: since when, when it is tried again at the earliest, and the
-- name of that model. Null for a message that was not tried.
ALTER TABLE inbox ADD COLUMN deferred_since bigint;
ALTER TABLE inbox ADD COLUMN deferred_until bigint;
ALTER TABLE inbox ADD COLUMN deferred_model text COLLATE "C";
