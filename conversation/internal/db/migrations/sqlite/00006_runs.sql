-- +goose Up
-- What a run did, and who asked for it.

ALTER TABLE runs ADD COLUMN sender TEXT; -- of the first message that it took, JSON as in inbox
ALTER TABLE runs ADD COLUMN messages INTEGER NOT NULL DEFAULT 0; -- rows that it added
ALTER TABLE runs ADD COLUMN steps TEXT; -- JSON, see step.go; null for none

-- Sums over the runs that answered somebody, by the hour in which they ended, and
-- of the people by the day: a month of them is read at once. A run is added a
-- moment after its commit, when the cursor run_totals passes its first reply; see
-- totals.go.
CREATE TABLE run_totals (
    hour              INTEGER NOT NULL, -- since 1970
    channel           TEXT NOT NULL,
    model             TEXT NOT NULL,
    runs              INTEGER NOT NULL,
    failed            INTEGER NOT NULL, -- of these
    stopped           INTEGER NOT NULL, -- likewise
    messages          INTEGER NOT NULL,
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    took              INTEGER NOT NULL, -- milliseconds
    PRIMARY KEY (hour, channel, model)
) WITHOUT ROWID;
CREATE TABLE run_people (
    day               INTEGER NOT NULL, -- since 1970, UTC
    channel           TEXT NOT NULL,
    person            TEXT NOT NULL, -- the platform's id, '' when nobody said
    model             TEXT NOT NULL,
    name              TEXT NOT NULL, -- of the person, as last seen
    runs              INTEGER NOT NULL,
    failed            INTEGER NOT NULL,
    stopped           INTEGER NOT NULL,
    messages          INTEGER NOT NULL,
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    took              INTEGER NOT NULL,
    PRIMARY KEY (day, channel, person, model)
) WITHOUT ROWID;
CREATE TABLE run_durations (
    hour   INTEGER NOT NULL,
    within INTEGER NOT NULL, -- they took at most so many milliseconds, and more than half of it
    runs   INTEGER NOT NULL,
    PRIMARY KEY (hour, within)
) WITHOUT ROWID;

UPDATE runs SET messages = counted.messages
FROM (SELECT run_id, count(*) AS messages FROM messages GROUP BY run_id) AS counted WHERE counted.run_id = runs.id;
INSERT INTO run_totals
SELECT r.ended_at / 3600000, s.channel, r.model, count(*), sum(r.status = 'failed'), sum(r.status = 'stopped'),
    sum(r.messages), sum(r.prompt_tokens), sum(r.completion_tokens), sum(max(r.ended_at - r.started_at, 0))
FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.kind = 'agent' GROUP BY 1, 2, 3;
INSERT INTO run_people
SELECT hour / 24, channel, '', model, '', sum(runs), sum(failed), sum(stopped), sum(messages), sum(prompt_tokens), sum(completion_tokens), sum(took)
FROM run_totals GROUP BY 1, 2, 4;
WITH RECURSIVE class (within) AS (SELECT 125 UNION ALL SELECT 2 * within FROM class WHERE within < 1024000)
INSERT INTO run_durations
SELECT r.ended_at / 3600000,
    coalesce((SELECT min(within) FROM class WHERE r.ended_at - r.started_at <= within), (SELECT max(within) FROM class)), count(*)
FROM runs r WHERE r.kind = 'agent' GROUP BY 1, 2;
INSERT INTO cursors (name, value, updated_at) SELECT 'run_totals', coalesce(max(id), 0), 0 FROM outbox;
