package move

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/conversation/internal/db"
)

// target is the database that becomes a copy of the source. A table in it says how far it has come,
// until it is finished.
type target interface {
	db.Querier

	// begin returns where an interrupted move of the same source goes on, and the zero value for a new one.
	// restarted reports that its rows were deleted, because the source has changed.
	begin(context.Context, *mover) (at position, restarted bool, err error)

	// add adds rows in a transaction, and sets the position from at to next. It fails if another process has set it.
	add(ctx context.Context, t table, batch []row, at, next position) error

	finish(context.Context, *mover) error
	discarding() string // tells the operator how to delete what was copied
	close() error
}

// position says how far a move has come.
type position struct {
	table string // the table whose rows were added last; "" for none yet
	after []any  // the key of the last row
	rows  int64  // number of rows that were added, over all tables
}

// keyPart is a part of a key in JSON. Texts are kept as bytes, since they may be no UTF-8.
type keyPart struct {
	Number *int64 `json:",omitempty"`
	Text   []byte `json:",omitempty"`
}

func encodeKey(key []any) (string, error) {
	parts := make([]keyPart, len(key))
	for i, value := range key {
		switch v := value.(type) {
		case int64:
			parts[i].Number = &v
		case string:
			parts[i].Text = []byte(v)
		default:
			return "", fmt.Errorf("the key %v is neither a number nor a text", key)
		}
	}
	text, err := json.Marshal(parts)
	return string(text), err
}

func decodeKey(text string) (key []any, err error) {
	var parts []keyPart
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		return nil, err
	}
	for _, part := range parts {
		if part.Number != nil {
			key = append(key, *part.Number)
		} else {
			key = append(key, string(part.Text))
		}
	}
	return key, nil
}

// The statements of the table that says how far a move has come.
const (
	makeMark = `CREATE TABLE ` + db.UnfinishedMove + ` (source TEXT NOT NULL, state TEXT NOT NULL, place TEXT NOT NULL, after_key TEXT NOT NULL, copied BIGINT NOT NULL)`
	setMark  = `INSERT INTO ` + db.UnfinishedMove + ` (source, state, place, after_key, copied) VALUES (?, ?, '', '[]', 0)`
	readMark = `SELECT source, state, place, after_key, copied FROM ` + db.UnfinishedMove
	moveMark = `UPDATE ` + db.UnfinishedMove + ` SET place = ?, after_key = ?, copied = ? WHERE copied = ?`
	dropMark = `DROP TABLE ` + db.UnfinishedMove
)

// mark is the row of that table.
type mark struct {
	source, state string
	at            position
}

func readsMark(ctx context.Context, q db.Querier) (k mark, err error) {
	var after string
	if err := q.QueryRowContext(ctx, readMark).Scan(&k.source, &k.state, &k.at.table, &after, &k.at.rows); err != nil {
		return k, err
	}
	k.at.after, err = decodeKey(after)
	return k, err
}

// wanted returns the mark of a new move. The version of the schema is part of the state: the tables have
// another order in another one.
func wanted(ctx context.Context, m *mover) (k mark, err error) {
	state, err := m.from.state(ctx)
	if err != nil {
		return k, err
	}
	version, err := db.NewestSchema()
	return mark{source: m.from.name(), state: fmt.Sprint(state, " ", version)}, err
}

// check fails if the move that was interrupted is one of another source.
func (k mark) check(want mark, target string) error {
	if k.source == want.source {
		return nil
	}
	return fmt.Errorf("%s has a part of %s, whose move was interrupted: move that again, or name an empty database", target, k.source)
}

// transaction runs do in a transaction of a connection.
func transaction(ctx context.Context, conn *sql.Conn, do func(tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// execute executes statements that have no arguments.
func execute(ctx context.Context, tx *sql.Tx, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.40s…: %w", strings.TrimSpace(statement), err)
		}
	}
	return nil
}

// advance sets the position in the transaction that adds the rows before it.
func advance(ctx context.Context, tx *sql.Tx, at, next position) error {
	key, err := encodeKey(next.after)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, moveMark, next.table, key, next.rows, at.rows)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errors.New("another process moves the same database: wait for it"))
	}
	return nil
}

// readFilesAgain has the chores add the long files to the new search index.
const readFilesAgain = `INSERT INTO unread_files (file_id) SELECT id FROM files WHERE message_id IS NOT NULL AND blob_id IS NOT NULL`
