-- +goose Up
-- What is known of a conversation beside its messages, and what is sent beside a reply.

ALTER TABLE conversations ADD COLUMN state TEXT; -- JSON, null for an empty one
UPDATE conversations SET state = json_object(
    'turns', (
        SELECT count(*) FROM messages m WHERE m.conversation_id = conversations.id AND m.role = 'user' AND NOT EXISTS (
            SELECT 1 FROM messages p WHERE p.conversation_id = m.conversation_id AND p.seq = m.seq - 1 AND p.role = 'user')),
    'asked', json(CASE (SELECT role FROM messages m WHERE m.conversation_id = conversations.id ORDER BY seq DESC LIMIT 1)
        WHEN 'user' THEN 'true' ELSE 'false' END))
WHERE messages > 0;

ALTER TABLE outbox ADD COLUMN transcript TEXT; -- JSON of the conversation that goes along as a file, null for none

-- A summary extends the one before it, which stays.
CREATE TABLE summaries (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    through         INTEGER NOT NULL, -- seq of the last message that it covers
    content         TEXT NOT NULL,
    tokens          INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, through)
);
