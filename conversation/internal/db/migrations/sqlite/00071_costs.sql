-- +goose Up
-- What model calls have cost, in billionths of the currency of the prices, by the prices of their time. Null: it was not
-- stored, or a model had no price.
ALTER TABLE runs ADD COLUMN cost INTEGER;
ALTER TABLE imported_runs ADD COLUMN cost INTEGER;
ALTER TABLE run_totals ADD COLUMN cost INTEGER;
ALTER TABLE run_people ADD COLUMN cost INTEGER;
-- The part of each person in the tokens and the cost of a run that answered several: JSON, null for the sender alone.
ALTER TABLE runs ADD COLUMN people TEXT;
