package rows

// Keeps is the condition on a row i of the inbox that its reply is kept; before schema 23
// only a fingerprint said so.
const Keeps = `coalesce(i.keep, i.fingerprint IS NOT NULL)`

// IsWithdrawn is the condition on a row i of the inbox that the message was taken back
// before a run settled it; before schema 23 only the run 0 said so.
const IsWithdrawn = `(i.withdrawn = 1 OR i.run_id = 0)`

// Withdraw is the statement that marks rows of the inbox as taken back. They leave
// the index of what waits.
const Withdraw = `UPDATE inbox SET withdrawn = 1, run_id = 0, title = '', text = '', attachments = NULL, overheard = NULL, address = '' `
