-- +goose Up
-- The server of a tool may ask people something in the middle of a call: such a question has a
-- form, and the answers to its fields. A call can have several questions, one after the other.
CREATE TABLE asked (
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
    form        TEXT,             -- JSON, what the server wants to know; null where it is whether the call may be made
    answers     TEXT NOT NULL DEFAULT '{}', -- JSON, by the names of the form's fields
    stop        INTEGER NOT NULL DEFAULT 0, -- the number of the call's stop at which the server asked, from 1; 0 without a form
    request     TEXT NOT NULL DEFAULT '', -- the server's name of its request at that stop
    process     TEXT NOT NULL DEFAULT '', -- the process that holds the call open meanwhile, '' where none has to
    delivered   INTEGER NOT NULL DEFAULT 0, -- the server is being told the answer
    UNIQUE (run_id, round, call_id, stop, request)
);
INSERT INTO asked (id, run_id, session_id, channel, account, round, call_id, tool, arguments, askers, rememberable,
        state, asked_at, expires_at, answered_at, answered_by, answer, reminded)
    SELECT id, run_id, session_id, channel, account, round, call_id, tool, arguments, askers, rememberable,
        state, asked_at, expires_at, answered_at, answered_by, answer, reminded FROM approvals;
DELETE FROM sqlite_sequence WHERE name = 'asked';
INSERT INTO sqlite_sequence (name, seq) SELECT 'asked', seq FROM sqlite_sequence WHERE name = 'approvals';
DROP TABLE approvals;
ALTER TABLE asked RENAME TO approvals;
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state = 'open';
CREATE INDEX approvals_session ON approvals (session_id, id);
