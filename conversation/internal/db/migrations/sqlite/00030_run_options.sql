-- +goose Up
-- What the sender of a message asks of the run that answers it, as JSON: instructions and
-- parameters of the model call. Null for nothing.

ALTER TABLE inbox ADD COLUMN options TEXT;
