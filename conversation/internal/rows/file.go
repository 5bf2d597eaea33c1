package rows

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
)

// File is a new row of the table files.
type File struct {
	N               int // place among the files of its message, pictures first
	Name, MediaType string
	Size            int64
	Blob            sql.NullInt64 // null while the bytes are not here
	Source          string        // from where they will be fetched, as JSON; "" if they are here
	Attempts        int
	Next            int64 // time of the next attempt to fetch them, in milliseconds
}

// Insert stores the file for the session of a conversation and returns its row id.
func (f File) Insert(ctx context.Context, tx db.Tx, conversation, at int64) (id int64, err error) {
	next := sql.NullInt64{Int64: f.Next, Valid: f.Source != ""}
	return db.Insert(ctx, tx, `
		INSERT INTO files (session_id, n, name, media_type, size, blob_id, source, attempts, next_at, created_at)
		SELECT session_id, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM conversations WHERE id = ?`,
		f.N, db.Text(f.Name), db.Text(f.MediaType), f.Size, f.Blob, db.Nullable(f.Source), f.Attempts, next, at, conversation)
}
