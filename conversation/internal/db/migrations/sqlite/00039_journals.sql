-- +goose Up
-- The runs under way that have called tools: what they have done so far, so that the next
-- process goes on from there when this one dies. The commit of a run deletes its journal.
CREATE TABLE journals (
    run_id     INTEGER PRIMARY KEY REFERENCES inbox (id) ON DELETE CASCADE,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    channel    TEXT NOT NULL,              -- by which the messages came
    account    TEXT NOT NULL,              -- the bot that they came to
    took       TEXT NOT NULL,              -- JSON list of the messages that the run took, with their edits
    started_at INTEGER NOT NULL,
    tries      INTEGER NOT NULL DEFAULT 0  -- how many processes have taken it up since its newest entry
);
CREATE INDEX journals_session ON journals (session_id);

-- What a run has done, in order: model calls that asked for tools, tool calls that began,
-- results.
CREATE TABLE journal_entries (
    run_id INTEGER NOT NULL REFERENCES journals (run_id) ON DELETE CASCADE,
    n      INTEGER NOT NULL,
    entry  TEXT NOT NULL, -- JSON
    PRIMARY KEY (run_id, n)
) WITHOUT ROWID;
