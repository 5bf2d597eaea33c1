-- +goose Up
-- What model calls have used on a day, while budgets are set: by person, by session and in
-- total.
CREATE TABLE budget_days (
    day    TEXT NOT NULL, -- YYYY-MM-DD in the time zone of the budgets
    scope  TEXT NOT NULL, -- person, session, total
    owner  TEXT NOT NULL, -- telegram:42 or the like, the session's key, '' for total
    tokens INTEGER NOT NULL,
    cost   INTEGER NOT NULL, -- billionths of the currency of the prices
    warned INTEGER NOT NULL DEFAULT 0, -- somebody was told that most of it is used
    PRIMARY KEY (day, scope, owner)
) WITHOUT ROWID;

-- What model calls under way may use. A call is let through if it fits beside them.
CREATE TABLE budget_reservations (
    id         INTEGER PRIMARY KEY,
    process    TEXT NOT NULL, -- which makes the call, and holds a lock of this name
    day        TEXT NOT NULL,
    person     TEXT NOT NULL, -- '' for nobody
    session    TEXT NOT NULL, -- '' for none
    tokens     INTEGER NOT NULL,
    cost       INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
