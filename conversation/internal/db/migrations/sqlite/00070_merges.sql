-- +goose Up
-- The full-text index is merged by chores in small steps, and not by the commits of messages or deletions.
INSERT INTO messages_fts (messages_fts, rank) VALUES ('automerge', 0);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('deletemerge', 0);
INSERT INTO messages_ranks (messages_ranks, rank) VALUES ('automerge', 0);
INSERT INTO messages_ranks (messages_ranks, rank) VALUES ('deletemerge', 0);
