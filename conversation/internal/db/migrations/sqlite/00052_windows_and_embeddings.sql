-- +goose Up
-- Which pictures a call names and does not show stays until the window advances: of those from
-- window_start on, the oldest window_named ones.
ALTER TABLE conversations ADD COLUMN window_named INTEGER NOT NULL DEFAULT 0;

-- The requests to the server of [embeddings], for messages and for queries.
CREATE TABLE embedding_totals (
    hour     INTEGER NOT NULL, -- since 1970
    model    TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed   INTEGER NOT NULL, -- of these
    tokens   INTEGER NOT NULL, -- that the server has counted
    cost     INTEGER NOT NULL, -- by the price of that time, in billionths of the currency
    PRIMARY KEY (hour, model)
) WITHOUT ROWID;
