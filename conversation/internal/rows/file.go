package rows

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
)

// File is a new row of the table files.
type File struct {
	N               int // its place among the files of its message, pictures first
	Name, MediaType string
	Size            int64         // bytes
	Blob            sql.NullInt64 // NULL while the bytes are missing
	Source          string        // a media.Source as JSON, from which the bytes will be fetched; "" if they are kept
	Attempts        int           // how many attempts to fetch them have failed
	Next            int64         // the time of the next attempt, in milliseconds
}

// Insert adds the file to the session of a conversation, and returns the id of its row. at is the present in milliseconds.
func (f File) Insert(ctx context.Context, tx db.Tx, conversation, at int64) (id int64, err error) {
	next := sql.NullInt64{Int64: f.Next, Valid: f.Source != ""}
	return db.Insert(ctx, tx, `
		INSERT INTO files (session_id, n, name, media_type, size, blob_id, source, attempts, next_at, created_at)
		SELECT session_id, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM conversations WHERE id = ?`,
		f.N, db.Text(f.Name), db.Text(f.MediaType), f.Size, f.Blob, db.Nullable(f.Source), f.Attempts, next, at, conversation)
}
