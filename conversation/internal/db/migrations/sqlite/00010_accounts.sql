-- +goose Up
-- Which bot a message came to. Two bots of one platform may number their messages
-- alike, and whom the operator let in with one is a stranger to the other.

-- The bots that have read their platform so far, and when they last did. The name
-- of a cursor is CHANNEL:BOT, or CHANNEL:BOT:PLACE.
CREATE TABLE known_bots AS
WITH named AS (
    SELECT substr(name, 1, instr(name, ':') - 1) AS channel, substr(name, instr(name, ':') + 1) || ':' AS rest, updated_at
    FROM cursors WHERE instr(name, ':') > 0
)
SELECT channel, substr(rest, 1, instr(rest, ':') - 1) AS account, max(updated_at) AS read_at FROM named GROUP BY 1, 2;

-- Those that were the only one of their channel: all that it has is theirs. Of
-- several bots nobody knows which message came to which.
CREATE TABLE only_bots AS
SELECT channel, min(account) AS account FROM known_bots GROUP BY channel HAVING count(*) = 1;

CREATE TABLE inbox_new (
    id          INTEGER PRIMARY KEY,
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL DEFAULT '', -- the platform's id of the bot that it came to; '' where there is none, or it is not known
    origin      TEXT, -- key of the place where it was written, null when that is the session's
    source_id   TEXT NOT NULL, -- the platform's id of the message, unique for the bot
    address     TEXT NOT NULL, -- while it waits
    sender      TEXT,
    in_group    INTEGER NOT NULL DEFAULT 0,
    title       TEXT NOT NULL DEFAULT '', -- of a conversation that begins with the message
    text        TEXT NOT NULL, -- while it waits: then it stands in messages
    attachments TEXT, -- JSON, null for none
    note        INTEGER NOT NULL DEFAULT 0, -- told with the next message, no run of its own
    revision    INTEGER NOT NULL DEFAULT 0, -- edits while it waited
    fingerprint TEXT, -- of what was asked, where the reply is kept for whoever asks; null where it is sent
    sent_at     INTEGER NOT NULL,
    run_id      INTEGER, -- the run that settled it, 0 when it was withdrawn, null while it waits
    UNIQUE (channel, source_id, account)
);
INSERT INTO inbox_new (id, session_id, channel, account, origin, source_id, address, sender, in_group, title, text, attachments, note, revision,
    fingerprint, sent_at, run_id)
SELECT i.id, i.session_id, i.channel, coalesce(b.account, ''), i.origin, i.source_id, i.address, i.sender, i.in_group, i.title, i.text, i.attachments,
    i.note, i.revision, i.fingerprint, i.sent_at, i.run_id
FROM inbox i LEFT JOIN only_bots b ON b.channel = i.channel ORDER BY i.id;
DROP TABLE inbox;
ALTER TABLE inbox_new RENAME TO inbox;
CREATE INDEX inbox_waiting ON inbox (session_id, id) WHERE run_id IS NULL;
CREATE INDEX inbox_kept ON inbox (run_id) WHERE fingerprint IS NOT NULL;

ALTER TABLE outbox ADD COLUMN account TEXT NOT NULL DEFAULT ''; -- the bot that sends it, as in inbox
UPDATE outbox SET account = coalesce((SELECT account FROM only_bots b WHERE b.channel = outbox.channel), '') WHERE state = 'due';
UPDATE outbox SET account = coalesce((SELECT account FROM only_bots b WHERE b.channel = outbox.channel), '') WHERE state = 'failed';

-- Whoever was let in was let in with every bot that there was. A code is of the
-- bot that read its platform last.
CREATE TABLE pairings_new (
    id          INTEGER PRIMARY KEY,
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL DEFAULT '', -- the platform's id of the bot that they asked; '' where it is not known
    user_id     TEXT NOT NULL, -- the platform's
    name        TEXT NOT NULL,
    code        TEXT UNIQUE, -- null once approved
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL, -- of the code
    approved_at INTEGER, -- null while it is asked for
    UNIQUE (channel, account, user_id)
);
INSERT INTO pairings_new (channel, account, user_id, name, code, asked_at, expires_at, approved_at)
SELECT p.channel, coalesce(b.account, ''), p.user_id, p.name, p.code, p.asked_at, p.expires_at, p.approved_at
FROM pairings p LEFT JOIN known_bots b ON b.channel = p.channel
    AND (p.approved_at IS NOT NULL OR b.account = (SELECT account FROM known_bots l WHERE l.channel = p.channel ORDER BY read_at DESC, account LIMIT 1))
ORDER BY p.id;
DROP TABLE pairings;
ALTER TABLE pairings_new RENAME TO pairings;

CREATE TABLE channel_health_new (
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL DEFAULT '', -- the platform's id of the bot
    state      TEXT NOT NULL, -- connecting, serving, interrupted, ended
    detail     TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (channel, account)
) WITHOUT ROWID;
INSERT INTO channel_health_new (channel, account, state, detail, changed_at)
SELECT h.channel, coalesce((SELECT account FROM known_bots b WHERE b.channel = h.channel ORDER BY read_at DESC, account LIMIT 1), ''),
    h.state, h.detail, h.changed_at
FROM channel_health h
UNION ALL
SELECT b.channel, b.account, 'interrupted', '', max(b.read_at) FROM known_bots b
WHERE NOT EXISTS (SELECT 1 FROM channel_health h WHERE h.channel = b.channel) GROUP BY b.channel;
DROP TABLE channel_health;
ALTER TABLE channel_health_new RENAME TO channel_health;

DROP TABLE only_bots;
DROP TABLE known_bots;
