-- +goose Up
-- Files that came with a user's message and are no pictures, as a JSON list: name,
-- media type, size, and where in the content the lines about each stand. Null for
-- none, and in messages from before this migration, whose content says all.

ALTER TABLE messages ADD COLUMN files TEXT;
