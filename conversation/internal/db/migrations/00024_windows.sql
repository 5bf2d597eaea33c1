-- +goose Up
-- Where the window of a conversation begins, so that each call of the model repeats the
-- one before: the seq of the first message shown, the tokens to which longer messages are
-- cut, and the budget for which both were chosen. 0 = not chosen yet.
ALTER TABLE conversations ADD COLUMN window_start INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN window_cut INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN window_budget INTEGER NOT NULL DEFAULT 0;
