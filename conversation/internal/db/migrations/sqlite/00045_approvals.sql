-- +goose Up
-- Tool calls that a person must allow before they are made. A run waits for the answers, and
-- goes on from its journal when the last one has come. When it is stored, the arguments are
-- removed here: they stand in its messages then.
CREATE TABLE approvals (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      INTEGER NOT NULL REFERENCES inbox (id) ON DELETE CASCADE, -- that asks
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    channel     TEXT NOT NULL,    -- where it was asked
    account     TEXT NOT NULL,    -- by which bot
    round       INTEGER NOT NULL, -- of the run's journal, from 1
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    arguments   TEXT NOT NULL,    -- JSON, as the model wrote it
    askers      TEXT NOT NULL,    -- JSON list of the accounts whose messages the run answers
    rememberable INTEGER NOT NULL, -- whether the answer may hold for the whole session
    state       TEXT NOT NULL DEFAULT 'open', -- open, allowed, denied, expired, cancelled
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    answered_at INTEGER,
    answered_by TEXT NOT NULL DEFAULT '', -- the person's name, or what else has answered
    answer      INTEGER,          -- the inbound that has answered, null for none
    reminded    INTEGER NOT NULL DEFAULT 0, -- the chat was told that later messages wait for the answer
    UNIQUE (run_id, round, call_id)
);
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state = 'open';
CREATE INDEX approvals_session ON approvals (session_id, id);

-- Tools whose calls are made in a session without asking again.
CREATE TABLE session_approvals (
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    tool       TEXT NOT NULL,
    allowed_by TEXT NOT NULL, -- as answered_by
    allowed_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, tool)
) WITHOUT ROWID;

-- What is sent before its run has ended: a question, or a notice about one.
ALTER TABLE outbox ADD COLUMN interim INTEGER NOT NULL DEFAULT 0;
