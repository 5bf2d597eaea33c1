package move

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"parley/conversation/internal/db"
	"parley/conversation/internal/postgres"
)

// serverTarget is a PostgreSQL database that is filled.
type serverTarget struct {
	*sql.Conn
	server *db.Server
}

func openServerTarget(ctx context.Context, config db.Config) (target, error) {
	server, err := db.OpenServer(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &serverTarget{server: server}
	if err := server.MakeSchema(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if s.Conn, err = server.Conn(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return s, nil
}

func (s *serverTarget) close() error { return errors.Join(s.Conn.Close(), s.server.Close()) }

func (s *serverTarget) discarding() string {
	return "drop the database " + s.server.Name + " and create it again"
}

func (s *serverTarget) begin(ctx context.Context, m *mover) (at position, restarted bool, err error) {
	want, err := wanted(ctx, m)
	if err != nil {
		return at, false, err
	}
	var half bool
	if err := s.QueryRowContext(ctx, `SELECT to_regclass('`+db.UnfinishedMove+`') IS NOT NULL`).Scan(&half); err != nil {
		return at, false, db.Explain(err)
	}
	if half {
		known, err := readsMark(ctx, s)
		if err == nil {
			err = known.check(want, s.server.Name)
		}
		if err != nil || known.state == want.state {
			return known.at, false, err
		}
		return position{}, true, db.Explain(s.restart(ctx, m.tables, want))
	}
	if err := s.checkEmpty(ctx, m.tables); err != nil {
		return at, false, err
	}
	if err := s.mark(ctx, want); err != nil {
		return at, false, err
	}
	if err := db.RefuseNodes(ctx, s, s.server.Name); err != nil {
		return at, false, errors.Join(err, transaction(ctx, s.Conn, func(tx *sql.Tx) error { return execute(ctx, tx, dropMark) }))
	}
	return at, false, nil
}

func (s *serverTarget) checkEmpty(ctx context.Context, tables []table) error {
	for _, t := range tables {
		var has bool
		if err := s.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM "`+t.name+`")`).Scan(&has); err != nil {
			return db.Explain(err)
		}
		if has {
			return fmt.Errorf("%s is not empty (its table %s has rows): create a new database, and name that", s.server.Name, t.name)
		}
	}
	return nil
}

// mark makes the table that keeps gateways from starting.
func (s *serverTarget) mark(ctx context.Context, want mark) error {
	return db.Explain(transaction(ctx, s.Conn, func(tx *sql.Tx) error {
		if err := execute(ctx, tx, makeMark); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, setMark, want.source, want.state)
		return err
	}))
}

// filled are the tables that triggers fill while rows are copied.
const filled = `uncounted, unindexed_messages, unembedded_messages, unread_files`

// restart deletes what was copied.
func (s *serverTarget) restart(ctx context.Context, tables []table, want mark) error {
	var names []string
	for _, t := range tables {
		names = append(names, t.name)
	}
	return transaction(ctx, s.Conn, func(tx *sql.Tx) error {
		err := execute(ctx, tx, `TRUNCATE `+quoted(names)+`, `+filled+` CASCADE`, `DELETE FROM `+db.UnfinishedMove)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, setMark, want.source, want.state)
		return err
	})
}

func (s *serverTarget) add(ctx context.Context, t table, batch []row, at, next position) error {
	values := make([][]any, len(batch))
	for i, r := range batch {
		values[i] = r.values
	}
	return transaction(ctx, s.Conn, func(tx *sql.Tx) error {
		if err := advance(ctx, tx, at, next); err != nil {
			return err
		}
		return postgres.CopyRows(ctx, s.Conn, t.name, t.names(), values)
	})
}

// finish fills the tables of work that is left, has new rows get new ids, and lets gateways start. The triggers
// have listed all messages for the search index.
func (s *serverTarget) finish(ctx context.Context, m *mover) error {
	counted, err := m.from.counted(ctx)
	if err != nil {
		return err
	}
	embedded, err := m.from.embedded(ctx)
	if err != nil {
		return err
	}
	err = transaction(ctx, s.Conn, func(tx *sql.Tx) error {
		for _, t := range m.tables {
			if err := s.setSequence(ctx, tx, m.from, t); err != nil {
				return err
			}
		}
		if err := execute(ctx, tx, `DELETE FROM uncounted`, `DELETE FROM unembedded_messages`, `DELETE FROM unread_files`, readFilesAgain); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO uncounted (run_id, channel)
			SELECT o.run_id, o.channel FROM outbox o WHERE o.id > ? AND o.interim = 0
				AND (SELECT run_id FROM outbox p WHERE p.id = o.id - 1 AND p.interim = 0) IS DISTINCT FROM o.run_id
			ON CONFLICT DO NOTHING`, counted); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO unembedded_messages (message_id)
			SELECT id FROM messages WHERE id > ? AND EXISTS (SELECT 1 FROM embeddings)`, embedded); err != nil {
			return err
		}
		return execute(ctx, tx, dropMark)
	})
	if err != nil {
		return db.Explain(err)
	}
	_, err = s.ExecContext(ctx, `ANALYZE`)
	return db.Explain(err)
}

// setSequence has a table give ids behind all that were ever given.
func (s *serverTarget) setSequence(ctx context.Context, tx *sql.Tx, from source, t table) error {
	var sequence sql.NullString
	if t.column("id") < 0 {
		return nil
	}
	err := tx.QueryRowContext(ctx, `SELECT pg_get_serial_sequence(CAST(? AS text), 'id')`, t.name).Scan(&sequence)
	if err != nil || !sequence.Valid {
		return err
	}
	given, err := from.ids(ctx, t.name)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `SELECT setval(CAST(CAST(? AS text) AS regclass), greatest(highest, 1), highest > 0)
		FROM (SELECT greatest(CAST(? AS bigint), (SELECT coalesce(max(id), 0) FROM "`+t.name+`")) AS highest) AS ids`, sequence.String, given)
	return err
}
