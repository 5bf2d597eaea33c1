-- +goose Up
-- The server of a tool may ask people something in the middle of a call: such a question has a
-- form, and the answers to its fields. A call can have several questions, one after the other.
ALTER TABLE approvals ADD COLUMN form text COLLATE "C"; -- JSON, what the server wants to know; null where it is whether the call may be made
ALTER TABLE approvals ADD COLUMN answers text COLLATE "C" NOT NULL DEFAULT '{}'; -- JSON, by the names of the form's fields
ALTER TABLE approvals ADD COLUMN stop bigint NOT NULL DEFAULT 0; -- the number of the call's stop at which the server asked, from 1; 0 without a form
ALTER TABLE approvals ADD COLUMN request text COLLATE "C" NOT NULL DEFAULT ''; -- the server's name of its request at that stop
ALTER TABLE approvals ADD COLUMN process text COLLATE "C" NOT NULL DEFAULT ''; -- the process that holds the call open meanwhile, '' where none has to
ALTER TABLE approvals ADD COLUMN delivered bigint NOT NULL DEFAULT 0; -- the server is being told the answer
ALTER TABLE approvals DROP CONSTRAINT approvals_run_id_round_call_id_key;
ALTER TABLE approvals ADD UNIQUE (run_id, round, call_id, stop, request);
