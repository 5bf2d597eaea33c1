-- +goose Up
-- A message that waits because its model could not be called: since when, when it is tried again at the earliest, and the
-- name of that model. Null for a message that was not tried.
ALTER TABLE inbox ADD COLUMN deferred_since INTEGER;
ALTER TABLE inbox ADD COLUMN deferred_until INTEGER;
ALTER TABLE inbox ADD COLUMN deferred_model TEXT;
CREATE INDEX inbox_deferred ON inbox (deferred_since) WHERE run_id IS NULL AND deferred_since IS NOT NULL;
