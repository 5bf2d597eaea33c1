-- +goose Up
-- Pinned chats, and the branches of conversations. No statement reads a row of a table that
-- was there before, so that a damaged page does not keep the database from being opened.

-- 1 for a session that stands at the top of lists.
ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;

-- A message follows the one before it, by seq, unless a row here says which one it follows:
-- then a branch begins with it, and seq 0 stands for the beginning of the conversation.
CREATE TABLE branches (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,
    parent          INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, seq)
) WITHOUT ROWID;

-- The message that the next one follows, where that is not the newest: 0 = the newest.
ALTER TABLE conversations ADD COLUMN tip INTEGER NOT NULL DEFAULT 0;

-- The state that a message has on its branch, while another branch is chosen. Its state is
-- 'replaced' then. Null for a message on the chosen branch.
ALTER TABLE messages ADD COLUMN set_aside TEXT;

-- The state of a conversation, as JSON, at the last message of a branch that was left.
CREATE TABLE branch_states (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    tip             INTEGER NOT NULL,
    state           TEXT NOT NULL,
    PRIMARY KEY (conversation_id, tip)
) WITHOUT ROWID;
