-- +goose Up
-- The parts of a reply that a platform has taken, a row for each, so that to mark
-- one costs the same whatever stands before it. A reply of a single part has its id
-- in outbox.sent, which also holds those of the first parts that an earlier version
-- has marked.
CREATE TABLE outbox_parts (
    outbox_id INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    n         INTEGER NOT NULL, -- place in the reply, from 0
    part_id   TEXT NOT NULL, -- the platform's
    PRIMARY KEY (outbox_id, n)
) WITHOUT ROWID;

-- What the database knows of time by itself, a row for each hour that gateways have
-- run, the newest 25 or so: see clock.go. Times are in milliseconds.
CREATE TABLE clock (
    hour   INTEGER PRIMARY KEY, -- of the running time, from 0
    ran    INTEGER NOT NULL, -- how long gateways have run in all, by the monotonic clock
    wall   INTEGER NOT NULL, -- what the machine's clock said at that moment
    lowest INTEGER NOT NULL -- the lowest wall - ran of the hour
);
