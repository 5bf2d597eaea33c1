-- +goose Up
-- How its server described a tool when a call of it was asked about, or when it was allowed for a session: calls are made only
-- as long as the server says the same. Empty for the gateway's own tools, and for what was asked or allowed before this migration.
-- The changes are what the server had changed, in words, when the question was asked again.
ALTER TABLE approvals ADD COLUMN definition text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN changes text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE session_approvals ADD COLUMN definition text COLLATE "C" NOT NULL DEFAULT '';
