-- +goose Up
-- What the next conversation of a session begins with, after one was archived from
-- outside: rules, as the JSON of a state. Null for nothing, and as soon as it has begun.

ALTER TABLE sessions ADD COLUMN carried TEXT;

-- Model calls that were made behind the commit of a run, for a title or a summary. The
-- sums of runs have their tokens from the moment in which the row is made.
CREATE TABLE background_steps (
    id              INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    run_id          INTEGER NOT NULL, -- behind which it was made
    step            TEXT NOT NULL, -- JSON, as an item of runs.steps, with the name of the model
    started_at      INTEGER NOT NULL
);
CREATE INDEX background_steps_conversation ON background_steps (conversation_id, run_id);
