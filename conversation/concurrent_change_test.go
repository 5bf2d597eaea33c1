package conversation_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// What another node changes of a conversation while messages are added to it stays, though the addition has read the
// conversation before that change was committed.
func TestAdditionKeepsWhatAnotherNodeChangesAtTheSameMoment(t *testing.T) {
	t.Parallel()
	const key = conversation.Key("api:1")
	program := func(s *conversation.Store) error {
		_, err := s.Append(t.Context(), key, "", storetest.User("added"))
		return err
	}
	edit := func(s *conversation.Store) error {
		run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), "added")
		run.Effect.Undo = 1
		_, err := s.Commit(t.Context(), run)
		return err
	}
	for name, test := range map[string]struct {
		add    func(s *conversation.Store) error
		change string
		kept   string // a condition on the conversation that has the added message
	}{
		"a title beside a program":      {program, `title = 'Bridges'`, `c.title = 'Bridges'`},
		"instructions beside a program": {program, `state = '{"instructions":["Be brief."]}'`, `c.state LIKE '%Be brief.%'`},
		"the deletion beside a program": {program, `deleted = 1, active = 0`, `c.deleted = 0`},
		"a title beside an edited run":  {edit, `title = 'Bridges'`, `c.title = 'Bridges'`},
		"instructions beside an edit":   {edit, `state = '{"instructions":["Be brief."]}'`, `c.state LIKE '%Be brief.%'`},
		"the deletion beside an edit":   {edit, `deleted = 1, active = 0`, `c.deleted = 0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			s := openNode(t, url)
			storetest.Turn(t, s, key, 1)
			storetest.Accept(t, s, storetest.Say(key, 2, "hello"))
			err := meanwhile(t, url, `UPDATE conversations SET `+test.change, func() error { return test.add(s) })
			if err != nil {
				t.Fatal(err)
			}
			var kept bool
			if err := postgrestest.Connect(t, url).QueryRow(t.Context(), `
				SELECT `+test.kept+` FROM messages m JOIN conversations c ON c.id = m.conversation_id WHERE m.content = 'added'`).Scan(&kept); err != nil || !kept {
				t.Errorf("kept: %v, %v", kept, err)
			}
		})
	}
}

// meanwhile carries out a statement on another connection, and commits it when do waits for a lock. It returns the error of do.
func meanwhile(t *testing.T, url, statement string, do func() error) error {
	t.Helper()
	other := postgrestest.Connect(t, url)
	onServer(t, other, `BEGIN`)
	onServer(t, other, statement)
	done := make(chan error, 1)
	go func() { done <- do() }()
	awaitLocks(t, other, 1)
	onServer(t, other, `COMMIT`)
	return <-done
}

func onServer(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// awaitLocks waits until n connections to the database wait for a lock.
func awaitLocks(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	for waiting := 0; waiting < n; time.Sleep(time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}
