-- +goose Up
-- Whether a conversation of a session was deleted. A session with metadata and no
-- conversation is listed if it was never used, and not once it was cleared.
ALTER TABLE sessions ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET cleared = 1 WHERE id IN (SELECT session_id FROM conversations WHERE deleted <> 0);
