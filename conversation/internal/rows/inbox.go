package rows

// Keeps is the condition that the reply to a row i of the inbox is kept. Rows from before schema
// 23 have no value in keep; for them, a fingerprint means that it is kept.
const Keeps = `CASE WHEN i.keep IS NULL THEN i.fingerprint IS NOT NULL ELSE i.keep = 1 END`

// IsWithdrawn is the condition that a row i of the inbox was withdrawn before a run settled it. In
// rows from before schema 23, the run 0 says so.
const IsWithdrawn = `(i.withdrawn = 1 OR i.run_id = 0)`

// Withdraw is the statement that marks rows of the inbox as withdrawn, which removes them from
// the index of waiting messages.
const Withdraw = `UPDATE inbox SET withdrawn = 1, run_id = 0, title = '', text = '', attachments = NULL, options = NULL, overheard = NULL, address = '' `
