-- +goose Up
-- Models and agents. No statement reads a row of a table that was there before, so that a
-- damaged page does not keep the database from being opened.

-- What was chosen for a session: the name of a section [models.NAME] and of one [agents.NAME];
-- null for none. They hold in all its conversations.
ALTER TABLE sessions ADD COLUMN model TEXT;
ALTER TABLE sessions ADD COLUMN agent TEXT;

-- The fallback model that has answered last in place of the session's, of which people were
-- told; null when its own did.
ALTER TABLE sessions ADD COLUMN fallback TEXT;

-- The name of the agent that a run had, null for that of the section [agent].
ALTER TABLE runs ADD COLUMN agent TEXT;
ALTER TABLE imported_runs ADD COLUMN agent TEXT;

-- What the model thought before an answer, null for nothing. It is not sent to the model again.
ALTER TABLE messages ADD COLUMN reasoning TEXT;
