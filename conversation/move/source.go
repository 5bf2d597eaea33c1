package move

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
)

// source is the database that is moved. Nobody changes it until close.
type source interface {
	db.Querier
	name() string                               // names the source for people
	state(context.Context) (string, error)      // returns a text that changes with each write to the source
	ids(context.Context, string) (int64, error) // returns the highest ID that a table has ever given
	counted(context.Context) (int64, error)     // returns the ID of the newest reply whose run is in the sums of runs
	embedded(context.Context) (int64, error)    // returns the ID of the newest message that has its vectors, or needs none
	read(context.Context, table, []any) iter.Seq2[row, error]
	lostFiles() int64 // returns the number of files whose bytes were missing when they were read
	close() error
}

// fileSource is a SQLite file with the folder of its large files.
type fileSource struct {
	*sql.DB
	held *db.Access
	lost map[int64]bool // blobs whose bytes are missing
}

func openFileSource(ctx context.Context, path string) (_ source, err error) {
	if exists, err := db.Exists(path); err != nil || !exists {
		return nil, errors.Join(err, fmt.Errorf("there is no database %s", path))
	}
	held, err := db.Exclude(path)
	if err != nil {
		return nil, err
	}
	f := &fileSource{held: held, lost: map[int64]bool{}}
	if err := held.CheckLog(ctx); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	if f.DB, err = sqlite.Open(held.Path, sqlite.Options{ReadOnly: true}); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	if err := checkSchema(ctx, f, held.Path, db.NewestSchema); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// checkSchema refuses a source whose schema is not that of this gateway.
func checkSchema(ctx context.Context, q db.Querier, name string, known func() (int64, error)) error {
	var version sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&version); err != nil {
		return fmt.Errorf("%s is not a database of this gateway: %w", name, db.Explain(err))
	}
	newest, err := known()
	if err != nil {
		return err
	}
	switch {
	case version.Int64 > newest:
		return fmt.Errorf("the schema of %s has version %d, and this gateway knows only up to %d: use a newer gateway", name, version.Int64, newest)
	case version.Int64 < newest:
		return fmt.Errorf("the schema of %s has version %d, and this gateway has %d: start this gateway on it once, which brings it up to date", name, version.Int64, newest)
	}
	return nil
}

func (f *fileSource) name() string { return f.held.Path }

func (f *fileSource) close() error { return errors.Join(f.DB.Close(), f.held.Close()) }

func (f *fileSource) lostFiles() int64 { return int64(len(f.lost)) }

// state returns the epoch of the log, which the first write of every process changes.
func (f *fileSource) state(ctx context.Context) (epoch string, err error) {
	err = f.QueryRowContext(ctx, `SELECT epoch FROM wal_epoch`).Scan(&epoch)
	return epoch, err
}

func (f *fileSource) ids(ctx context.Context, table string) (id int64, err error) {
	err = f.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?`, table).Scan(&id)
	return id, err
}

func (f *fileSource) counted(ctx context.Context) (id int64, err error) {
	err = f.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM cursors WHERE name = 'run_totals'`).Scan(&id)
	return id, err
}

func (f *fileSource) embedded(ctx context.Context) (id int64, err error) {
	err = f.QueryRowContext(ctx, `SELECT coalesce(max(done), 0) FROM embeddings`).Scan(&id)
	return id, err
}

// read reads the bytes of large files from the folder, in pieces like those of small ones.
func (f *fileSource) read(ctx context.Context, t table, after []any) iter.Seq2[row, error] {
	if t.name == "blob_pieces" {
		return f.pieces(ctx, after)
	}
	return t.read(ctx, f, after)
}

// pieces reads the bytes of files after a key of blob_pieces.
func (f *fileSource) pieces(ctx context.Context, after []any) iter.Seq2[row, error] {
	blob, n := int64(0), int64(-1)
	if after != nil {
		blob, n = after[0].(int64), after[1].(int64)
	}
	return func(yield func(row, error) bool) {
		rows, err := f.QueryContext(ctx, blobs.Select+`WHERE b.id >= ? ORDER BY b.id`, blob)
		if err != nil {
			yield(row{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			b, err := blobs.Scan(rows)
			if err != nil {
				yield(row{}, err)
				return
			}
			first := int64(0)
			if b.ID == blob {
				first = n + 1
			}
			if !f.piecesOf(ctx, b, first, yield) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(row{}, err)
		}
	}
}

// piecesOf reads the bytes of a file from a piece on, and records the file as lost if they are missing.
func (f *fileSource) piecesOf(ctx context.Context, b blobs.Blob, n int64, yield func(row, error) bool) (more bool) {
	if strings.HasPrefix(b.Hash, "deleted ") {
		return true
	}
	reader, err := blobs.Open(ctx, f, f.held.Path, b)
	if errors.Is(err, blobs.ErrMissing) {
		f.lost[b.ID] = true
		return true
	}
	if err != nil {
		yield(row{}, err)
		return false
	}
	defer reader.Close()
	for ; n*blobs.Piece < b.Size; n++ {
		piece := make([]byte, min(blobs.Piece, b.Size-n*blobs.Piece))
		if _, err := io.ReadFull(io.NewSectionReader(reader, n*blobs.Piece, blobs.Piece), piece); errors.Is(err, blobs.ErrMissing) {
			f.lost[b.ID] = true
			return true
		} else if err != nil {
			yield(row{}, err)
			return false
		}
		if !yield(row{key: []any{b.ID, n}, values: []any{b.ID, n, piece}}, nil) {
			return false
		}
	}
	return true
}

// serverSource is a PostgreSQL database, in a transaction that sees one state of it and keeps
// nodes from joining.
type serverSource struct {
	*sql.Conn
	server *db.Server
}

func openServerSource(ctx context.Context, config db.Config) (_ source, err error) {
	server, err := db.OpenServer(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &serverSource{server: server}
	if s.Conn, err = server.Conn(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *serverSource) begin(ctx context.Context) error {
	if err := checkSchema(ctx, s, s.server.Name, db.NewestServerSchema); err != nil {
		return err
	}
	for _, statement := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SET LOCAL lock_timeout = '5s'`, `LOCK TABLE nodes IN SHARE MODE`} {
		if _, err := s.ExecContext(ctx, statement); err != nil {
			return db.Explain(err)
		}
	}
	if err := db.RefuseNodes(ctx, s, s.server.Name); err != nil {
		return err
	}
	var half bool
	if err := s.QueryRowContext(ctx, `SELECT to_regclass('`+db.UnfinishedMove+`') IS NOT NULL`).Scan(&half); err != nil {
		return err
	}
	if half {
		return fmt.Errorf("%s is the target of a move that is not finished: finish that first", s.server.Name)
	}
	var uncounted int64
	err := s.QueryRowContext(ctx, `SELECT count(*) FROM uncounted`).Scan(&uncounted)
	if err == nil && uncounted > 0 {
		err = fmt.Errorf("%s has %d runs that are missing in the statistics, since its gateway was killed: start the gateway on it once, and stop it in order", s.server.Name, uncounted)
	}
	return err
}

func (s *serverSource) name() string { return s.server.Name }

func (s *serverSource) lostFiles() int64 { return 0 }

// close ends the connection, and with it the transaction.
func (s *serverSource) close() error {
	_, err := s.ExecContext(context.Background(), `ROLLBACK`)
	return errors.Join(err, s.Conn.Close(), s.server.Close())
}

// state returns the number of the newest node: each process that writes is one.
func (s *serverSource) state(ctx context.Context) (text string, err error) {
	err = s.QueryRowContext(ctx, `SELECT CAST(last_value AS text) FROM nodes_id_seq`).Scan(&text)
	return text, err
}

func (s *serverSource) ids(ctx context.Context, table string) (id int64, err error) {
	var sequence sql.NullString
	if err := s.QueryRowContext(ctx, `SELECT pg_get_serial_sequence(CAST(? AS text), 'id')`, table).Scan(&sequence); err != nil || !sequence.Valid {
		return 0, err
	}
	err = s.QueryRowContext(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM `+sequence.String).Scan(&id)
	return id, err
}

func (s *serverSource) counted(ctx context.Context) (id int64, err error) {
	err = s.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM outbox`).Scan(&id)
	return id, err
}

func (s *serverSource) embedded(ctx context.Context) (id int64, err error) {
	err = s.QueryRowContext(ctx, `SELECT coalesce((SELECT min(message_id) - 1 FROM unembedded_messages), (SELECT max(id) FROM messages), 0)`).Scan(&id)
	return id, err
}

func (s *serverSource) read(ctx context.Context, t table, after []any) iter.Seq2[row, error] {
	return t.read(ctx, s, after)
}
