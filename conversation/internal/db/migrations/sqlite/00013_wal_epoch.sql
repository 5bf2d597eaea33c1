-- +goose Up
-- Which log continues this file: see epoch.go. The table has one row, which
-- stands in one page; conversation/internal/sqlitefile reads it there.
CREATE TABLE wal_epoch (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    epoch    TEXT NOT NULL CHECK (length(epoch) = 32),
    previous TEXT NOT NULL CHECK (length(previous) = 32) -- zeros for none
);
INSERT INTO wal_epoch (id, epoch, previous) VALUES (1, lower(hex(randomblob(16))), '00000000000000000000000000000000');
