package rows

// Keeps is the condition on a row i of the inbox that its reply is kept. Rows from before
// schema 23 have no value in keep; in them a fingerprint means the same.
const Keeps = `CASE WHEN i.keep IS NULL THEN i.fingerprint IS NOT NULL ELSE i.keep = 1 END`

// IsWithdrawn is the condition on a row i of the inbox that the message was withdrawn before a
// run settled it. In rows from before schema 23 the run 0 means the same.
const IsWithdrawn = `(i.withdrawn = 1 OR i.run_id = 0)`

// Withdraw is the statement that marks rows of the inbox as withdrawn, which removes them from
// the index of waiting messages.
const Withdraw = `UPDATE inbox SET withdrawn = 1, run_id = 0, title = '', text = '', attachments = NULL, options = NULL, overheard = NULL, address = '' `
