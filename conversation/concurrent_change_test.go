package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/metadata"
	"parley/conversation/retention"
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
			err := meanwhile(t, url, `UPDATE conversations SET `+test.change, `COMMIT`, 1, func() error { return test.add(s) })
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

// meanwhile carries out a statement on another connection, and ends its transaction when n others wait for a lock because of do.
// It returns the error of do.
func meanwhile(t *testing.T, url, statement, end string, n int, do func() error) error {
	t.Helper()
	other := postgrestest.Connect(t, url)
	onServer(t, other, `BEGIN`)
	onServer(t, other, statement)
	done := make(chan error, 1)
	go func() { done <- do() }()
	awaitLocks(t, postgrestest.Connect(t, url), n)
	onServer(t, other, end)
	return <-done
}

func onServer(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// awaitLocks waits until n connections to the database wait for a lock. In a transaction, conn would know only the connections
// that were there at its beginning.
func awaitLocks(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	for waiting := 0; waiting < n; time.Sleep(time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

// What happens to a message or its conversation while another node commits the run that answers it is as if it had
// happened afterwards.
func TestChangeWaitsForTheRunThatAnotherNodeCommits(t *testing.T) {
	t.Parallel()
	const key = conversation.Key("api:1")
	said := storetest.Say(key, 2, "hello")
	account := conversation.Account{Channel: "api"}
	for name, test := range map[string]struct {
		change func(s *conversation.Store) error
		want   string // a condition
	}{
		"an edit": {
			func(s *conversation.Store) error {
				_, err := s.Edit(t.Context(), account, said.SourceID, "edited", time.UnixMilli(5))
				return err
			},
			`(SELECT count(*) FROM inbox WHERE note = 1 AND text = 'edited' AND run_id IS NULL) = 1 AND NOT EXISTS (SELECT 1 FROM inbox WHERE note = 0 AND text = 'edited')`,
		},
		"a withdrawal": {
			func(s *conversation.Store) error {
				_, err := s.Withdraw(t.Context(), account, said.SourceID)
				return err
			},
			`NOT EXISTS (SELECT 1 FROM inbox WHERE withdrawn = 1 OR run_id = 0)`,
		},
		"instructions": {
			func(s *conversation.Store) error { return s.SetInstructions(t.Context(), key, "Be brief.") },
			`(SELECT state FROM conversations) LIKE '%"turns":2%Be brief.%'`,
		},
		"a reset": {
			func(s *conversation.Store) error {
				_, err := s.Reset(t.Context(), key, true)
				return err
			},
			`(SELECT messages FROM conversations WHERE active = 0) = 4 AND (SELECT messages FROM conversations WHERE active = 1) = 0`,
		},
		"the retention": {
			func(s *conversation.Store) error {
				_, err := retention.New(s).Clean(t.Context(), retention.Rules{Expiration: time.Hour, Retention: time.Hour, TrustClock: true}, func(retention.Outdated) {})
				return err
			},
			`(SELECT messages FROM conversations WHERE deleted = 0) = 4`,
		},
		"the deletion": {
			func(s *conversation.Store) error {
				_, err := s.Delete(t.Context(), key, "")
				return err
			},
			`NOT EXISTS (SELECT 1 FROM conversations WHERE deleted = 0)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			committing, changing := openNode(t, url), openNode(t, url)
			storetest.Turn(t, committing, key, 1)
			storetest.Accept(t, committing, said)
			run := storetest.Answered(key, storetest.Begin(t, committing, key, 1000), "hi")
			holding := postgrestest.Connect(t, url)
			onServer(t, holding, `UPDATE conversations SET updated_at = 1`) // so that they are no longer kept, unless they are used now
			onServer(t, holding, `UPDATE messages SET created_at = 1`)
			changed := make(chan error, 1)
			const message = `INSERT INTO messages (conversation_id, seq, run_id, role, content, tokens, created_at) SELECT id, 3, 0, 'user', '', 0, 0 FROM conversations`
			err := meanwhile(t, url, message, `ROLLBACK`, 2, func() error { // the run adds one with this number
				go func() {
					awaitLocks(t, holding, 1)
					changed <- test.change(changing)
				}()
				_, err := committing.Commit(t.Context(), run)
				return err
			})
			if err := errors.Join(err, <-changed); err != nil {
				t.Fatal(err)
			}
			var is bool
			if err := holding.QueryRow(t.Context(), `SELECT `+test.want).Scan(&is); err != nil || !is {
				t.Errorf("%v, %v", is, err)
			}
		})
	}
}

// A person resumes an old conversation while the cleanup of another node deletes it, since it is no longer kept. The person is told that
// it is gone. If it became the active one, what they say next would be deleted with it.
func TestConversationThatIsDeletedMeanwhileIsNotResumed(t *testing.T) {
	t.Parallel()
	const key = conversation.Key("api:1")
	url := postgrestest.Database(t)
	s := openNode(t, url)
	storetest.Turn(t, s, key, 1)
	old, err := s.Archive(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	err = meanwhile(t, url, `UPDATE conversations SET deleted = 1, active = 0, title = ''`, `COMMIT`, 1, func() error { return s.Resume(t.Context(), key, old.ID) })
	if !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("resumed: %v", err)
	}
	if now, err := s.Active(t.Context(), key); err != nil || now.ID == old.ID {
		t.Errorf("the deleted conversation is active, %v", err)
	}
}

// A program sets the instructions of a session while the run that begins its first conversation is committed. The conversation has them.
func TestInstructionsReachAConversationThatBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	const key = conversation.Key("api:1")
	url := postgrestest.Database(t)
	s := openNode(t, url)
	storetest.Accept(t, s, storetest.Say(key, 1, "hello"))
	const begin = `WITH s AS (UPDATE sessions SET carried = NULL RETURNING id)
		INSERT INTO conversations (uuid, session_id, active, created_at, updated_at, state) SELECT '1', id, 1, 0, 0, '{}' FROM s`
	if err := meanwhile(t, url, begin, `COMMIT`, 1, func() error { return s.SetInstructions(t.Context(), key, "Be brief.") }); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Active(t.Context(), key); err != nil || len(c.State.Instructions) != 1 {
		t.Errorf("instructions of the conversation: %q, %v", c.State.Instructions, err)
	}
}

// Programs change the metadata of a session and of its conversation over two gateways at the same time, each another member. All changes stay.
func TestMetadataKeepsChangesOfTwoNodes(t *testing.T) {
	t.Parallel()
	const key, times = conversation.Key("api:1"), 10
	url := postgrestest.Database(t)
	nodes := []*conversation.Store{openNode(t, url), openNode(t, url)}
	storetest.Turn(t, nodes[0], key, 1)
	c, err := nodes[0].Active(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", c.ID} {
		var latest metadata.Object
		var all sync.WaitGroup
		for i := range 2 * times {
			all.Go(func() {
				err := nodes[i%2].ChangeMetadata(t.Context(), key, id, func(old metadata.Object) (metadata.Object, error) {
					members := map[string]int{}
					if old != "" {
						if err := json.Unmarshal([]byte(old), &members); err != nil {
							return "", err
						}
					}
					members[fmt.Sprint(i)] = i
					text, err := json.Marshal(members)
					return metadata.Object(text), err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		err := nodes[0].ChangeMetadata(t.Context(), key, id, func(old metadata.Object) (metadata.Object, error) {
			latest = old
			return old, nil
		})
		if members := strings.Count(string(latest), ":"); err != nil || members != 2*times {
			t.Errorf("%d members are left, %v", members, err)
		}
	}
}
