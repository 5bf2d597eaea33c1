-- +goose Up
-- A session may span places: what came from where, and by which channel a reply goes.

ALTER TABLE inbox ADD COLUMN origin TEXT; -- key of the place where it was written, null when that is the session's

ALTER TABLE outbox ADD COLUMN channel TEXT NOT NULL DEFAULT '';
UPDATE outbox SET channel = (SELECT channel FROM sessions WHERE id = session_id);
