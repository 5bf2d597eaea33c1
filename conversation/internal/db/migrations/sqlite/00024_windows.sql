-- +goose Up
-- Where the window of a conversation begins, so that each call of the model repeats the
-- one before: the seq of the first message shown, the tokens to which longer messages are
-- cut, and the budget for which both were chosen. 0 = not chosen yet.
ALTER TABLE conversations ADD COLUMN window_start INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN window_cut INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN window_budget INTEGER NOT NULL DEFAULT 0;

-- Tokens that the model's server took from its cache, of prompt_tokens.
ALTER TABLE runs ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_totals ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_people ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
