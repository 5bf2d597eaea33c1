-- +goose Up
-- What people asked to be reminded of, and when it is due next. When it is due, a message is
-- put into the inbox, and next_at moves on in the same transaction.
CREATE TABLE reminders (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,            -- by which people name it, from 1 in each session
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,               -- the bot that was asked
    origin     TEXT NOT NULL,               -- key of the place that was asked in
    address    TEXT NOT NULL,               -- where the reply goes
    person     TEXT NOT NULL,               -- the platform's id of who asked
    name       TEXT NOT NULL,               -- of the person
    in_group   INTEGER NOT NULL,
    text       TEXT NOT NULL,
    zone       TEXT NOT NULL,               -- IANA name
    starts_at  INTEGER NOT NULL,            -- the first time, milliseconds
    rule       TEXT NOT NULL,               -- RRULE of RFC 5545; '' = once
    next_at    INTEGER NOT NULL,            -- milliseconds
    call       TEXT,                        -- key of the tool call that made it
    created_at INTEGER NOT NULL,
    UNIQUE (session_id, number),
    UNIQUE (call)
);
CREATE INDEX reminders_due ON reminders (next_at);

-- The time zones that people named.
CREATE TABLE time_zones (
    channel    TEXT NOT NULL,
    person     TEXT NOT NULL, -- the platform's id
    zone       TEXT NOT NULL, -- IANA name
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (channel, person)
) WITHOUT ROWID;
