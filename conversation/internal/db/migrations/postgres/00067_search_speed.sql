-- +goose Up
-- What is added to a GIN index waits in a list until it is merged, and a search reads the whole list for each word that it
-- looks up: by default up to 4 MiB, which took most of its time. 256 KiB cost a search little, and merging as often as
-- that a third more processor time than before.
ALTER INDEX message_words_words SET (gin_pending_list_limit = 256); -- KiB
ALTER INDEX message_ranks_ranks SET (gin_pending_list_limit = 256);
