-- +goose Up
-- The platform's id of the message that shows the answer while it is written, of the run that begins with this message: '' for
-- none.
ALTER TABLE inbox ADD COLUMN preview TEXT NOT NULL DEFAULT '';
