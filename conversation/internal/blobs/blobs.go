// Package blobs keeps the bytes of files as blobs. Files with the same bytes share a blob. With
// SQLite, small blobs are in the database and large ones in a folder beside it; on PostgreSQL, all
// are in the database. A blob that no row of the table files names is deleted.
package blobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlitefile"
)

// Piece is how many bytes of a blob a row of blob_pieces has. The last row of a blob may have
// fewer.
const Piece = 1 << 20

// Folder returns the path of the folder for the large blobs of a database. It may not exist.
func Folder(database string) string { return database + sqlitefile.FolderSuffix }

// Blob is a row of the table blobs.
type Blob struct {
	ID        int64
	Hash      string // SHA-256 of the bytes in hexadecimal
	Size      int64  // bytes
	MediaType string // the media type that was found from the bytes
	Path      string // the name of its file in the folder, "" if the bytes are in the database
}

// Select is the beginning of a query for blobs. A condition on b may follow.
const Select = `SELECT b.id, b.hash, b.size, b.media_type, b.path FROM blobs b `

// Scan reads a row of Select.
func Scan(row interface{ Scan(...any) error }) (b Blob, err error) {
	err = row.Scan(&b.ID, &b.Hash, &b.Size, &b.MediaType, &b.Path)
	return b, err
}

// find returns the blob with a hash, for a file that will name it. ok is false if there is none.
// On PostgreSQL it locks the blob, so that others can't delete it until the transaction has ended.
func find(ctx context.Context, tx db.Tx, hash string) (b Blob, ok bool, err error) {
	b, err = Scan(tx.QueryRowContext(ctx, Select+`WHERE b.hash = ?`+db.Either(``, ` FOR KEY SHARE`), hash))
	if errors.Is(err, sql.ErrNoRows) {
		return b, false, nil
	}
	return b, err == nil, err
}

// Reader reads a blob from any offset. The caller must close it.
type Reader struct {
	Blob

	ctx  context.Context
	q    db.Querier
	file *os.File // nil = the bytes are in the database
	n    int64    // the number of the piece that was read last, -1 = none was
	last []byte   // this piece
}

// ErrMissing says that bytes of a blob are missing in the folder or in the database.
var ErrMissing = errors.New("its bytes are missing")

// Open opens a blob of the database with this path or URL. The reader uses q, and can be used until
// ctx ends. The error wraps ErrMissing if the file of a large blob is missing or has another size.
func Open(ctx context.Context, q db.Querier, database string, b Blob) (*Reader, error) {
	r := &Reader{Blob: b, ctx: ctx, q: q, n: -1}
	if b.Path == "" {
		return r, nil
	}
	file, err := os.Open(filepath.Join(Folder(database), filepath.Base(b.Path)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || info.Size() != b.Size {
		return nil, errors.Join(fmt.Errorf("%w: %s does not have %d bytes", ErrMissing, file.Name(), b.Size), err, file.Close())
	}
	r.file = file
	return r, nil
}

// ReadAt implements io.ReaderAt, but it is not safe for concurrent use.
func (r *Reader) ReadAt(p []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("negative offset")
	}
	if r.file != nil {
		return r.file.ReadAt(p, at)
	}
	for n < len(p) {
		if at >= r.Size {
			return n, io.EOF
		}
		piece, err := r.piece(at / Piece)
		if err != nil {
			return n, err
		}
		from := at % Piece
		if from >= int64(len(piece)) {
			return n, ErrMissing
		}
		copied := copy(p[n:], piece[from:])
		n, at = n+copied, at+int64(copied)
	}
	return n, nil
}

// piece returns the piece n, from 0.
func (r *Reader) piece(n int64) ([]byte, error) {
	if n == r.n {
		return r.last, nil
	}
	var data []byte
	err := r.q.QueryRowContext(r.ctx, `SELECT data FROM blob_pieces WHERE blob_id = ? AND n = ?`, r.ID, n).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, db.Explain(err)
	}
	r.n, r.last = n, data
	return data, nil
}

// Whole returns a reader for the whole blob.
func (r *Reader) Whole() *io.SectionReader { return io.NewSectionReader(r, 0, r.Size) }

// Close closes the file of the blob, if it has one.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// AddBytes stores bytes in the database, unless the same bytes are kept already, and returns
// the id of their blob. The caller must add a row of files that names the blob in the same
// transaction. at is the present in milliseconds.
func AddBytes(ctx context.Context, tx db.Tx, data []byte, at int64) (id int64, err error) {
	d := NewDraft("", int64(len(data)))
	if _, err := d.Write(data); err != nil {
		return 0, err
	}
	if b, found, err := find(ctx, tx, d.Hash()); found || err != nil {
		return b.ID, err
	}
	return d.insert(ctx, tx, at)
}

// FileData returns the bytes of a file by its id. The error is sql.ErrNoRows if its bytes are not
// kept. path is the path or URL of the database.
func FileData(ctx context.Context, d *db.DB, path string, file int64) ([]byte, error) {
	blob, err := Scan(d.QueryRowContext(ctx, Select+`JOIN files f ON f.blob_id = b.id WHERE f.id = ?`, file))
	if err != nil {
		return nil, db.Explain(err)
	}
	reader, err := Open(ctx, d, path, blob)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	data := make([]byte, blob.Size)
	if _, err := io.ReadFull(reader.Whole(), data); err != nil {
		return nil, fmt.Errorf("read file %d: %w", file, err)
	}
	return data, nil
}
