package faulttest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/conversation/dbfile"
	"parley/conversation/storetest"
)

// copyDatabase opens a copy of the database as a killed process left it. It is a copy since opening the file would
// repair what the next start has to repair. No process may run. A database on a server needs no copy.
func (w *world) copyDatabase() *sql.DB {
	w.t.Helper()
	if storetest.OnPostgres() {
		return w.openServer()
	}
	return openSQLite(w.t, w.copyDatabaseTo(w.t.TempDir()))
}

// copyDatabaseTo copies the database, as copyDatabase does, into a folder.
func (w *world) copyDatabaseTo(dir string) (path string) {
	w.t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(w.gw.Database + suffix)
		if os.IsNotExist(err) {
			continue
		}
		w.must(err)
		w.must(os.WriteFile(filepath.Join(dir, "copy.db"+suffix), bytes, 0o600))
	}
	return filepath.Join(dir, "copy.db")
}

// inCopy calls look with a database like that of copyDatabase, and deletes the copy: there may be hundreds of kills.
func (w *world) inCopy(look func(db *sql.DB)) {
	w.t.Helper()
	if storetest.OnPostgres() {
		db := w.openServer()
		defer db.Close()
		look(db)
		return
	}
	dir, err := os.MkdirTemp(w.t.TempDir(), "")
	w.must(err)
	defer os.RemoveAll(dir)
	db := openSQLite(w.t, w.copyDatabaseTo(dir))
	defer db.Close()
	look(db)
}

// dueNow returns the replies that are to be sent after a kill.
func (w *world) dueNow() (list []string) {
	w.t.Helper()
	w.inCopy(func(db *sql.DB) { list = w.due(db) })
	return list
}

// openServer opens the database on a PostgreSQL server, as another program does.
func (w *world) openServer() *sql.DB {
	w.t.Helper()
	db, err := dbfile.OpenURL(w.gw.Database)
	w.must(err)
	w.t.Cleanup(func() { _ = db.Close() }) // it may be closed already
	return db
}

func openSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a copy, or closed already
	return db
}

// column reads the first column of a query, as text.
func column(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// count returns the number that a query reads while the gateway runs.
func (w *world) count(query string) int {
	w.t.Helper()
	open := dbfile.OpenReadOnly
	if storetest.OnPostgres() {
		open = dbfile.OpenURL
	}
	db, err := open(w.gw.Database)
	w.must(err)
	defer db.Close()
	n, err := strconv.Atoi(column(w.t, db, query)[0])
	w.must(err)
	return n
}

// stored returns how many messages the gateway has accepted.
func (w *world) stored() int { return w.count(`SELECT count(*) FROM inbox`) }

// expectState checks how many messages wait, how many are stored, and how many replies are to be sent.
func (w *world) expectState(db *sql.DB, waiting, messages, due int) {
	w.t.Helper()
	got := column(w.t, db, `SELECT
		(SELECT count(*) FROM inbox WHERE run_id IS NULL) || ' waiting, ' ||
		(SELECT count(*) FROM messages) || ' stored, ' ||
		(SELECT count(*) FROM outbox WHERE state = 'due') || ' due'`)[0]
	if want := fmt.Sprintf("%d waiting, %d stored, %d due", waiting, messages, due); got != want {
		w.t.Fatalf("the database holds: %s; want: %s", got, want)
	}
}

// due returns the replies that are to be sent, as "chat text".
func (w *world) due(db *sql.DB) []string {
	w.t.Helper()
	tables := `SELECT name FROM sqlite_master WHERE name = 'outbox'`
	if storetest.OnPostgres() {
		tables = `SELECT tablename FROM pg_tables WHERE tablename = 'outbox'`
	}
	if len(column(w.t, db, tables)) == 0 {
		return nil // killed before its database was made
	}
	return column(w.t, db, `SELECT s.key || ' ' || o.text FROM outbox o JOIN sessions s ON s.id = o.session_id WHERE o.state = 'due'`)
}

// expectClean checks the database after an orderly end: nothing is left to do, and every history holds
// what was written in its chats, once and in order, each message answered by the run that took it.
func (w *world) expectClean() {
	w.t.Helper()
	db := w.copyDatabase()
	if !storetest.OnPostgres() {
		w.expectSound(db)
	}
	for what, query := range map[string]string{
		"message waits":             `SELECT text FROM inbox WHERE run_id IS NULL`,
		"reply is not sent":         `SELECT text FROM outbox WHERE state NOT IN ('sent', 'kept')`,
		"run did not answer":        `SELECT id FROM runs WHERE status <> 'done'`,
		"run settles nothing":       `SELECT id FROM runs WHERE id NOT IN (SELECT run_id FROM inbox)`,
		"run does not exist":        `SELECT run_id FROM inbox WHERE run_id NOT IN (SELECT id FROM runs)`,
		"message without its run":   `SELECT id FROM messages WHERE run_id NOT IN (SELECT id FROM runs)`,
		"number of messages is off": `SELECT id FROM conversations c WHERE messages <> (SELECT count(*) FROM messages m WHERE m.conversation_id = c.id)`,
		"replies are one message":   sharedMessages(storetest.OnPostgres()),
		"number of replies is off":  `SELECT id FROM runs r WHERE 1 <> (SELECT count(*) FROM outbox o WHERE o.run_id = r.id AND o.interim = 0)`,
	} {
		if got := column(w.t, db, query); len(got) > 0 {
			w.t.Errorf("%s: %d times, first %s", what, len(got), got[0])
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	said := map[string]map[int][]string{} // by session and chat
	for chat, texts := range w.said {
		key := w.platform.key(chat)
		if said[key] == nil {
			said[key] = map[int][]string{}
		}
		said[key][chat] = texts
	}
	for key, chats := range said {
		w.expectHistory(db, key, chats)
	}
}

// expectOwnMessages checks that each delivery has messages of its own on the platform, unless the test has left no database
// that can be read. Its processes may run.
func (w *world) expectOwnMessages() {
	w.t.Helper()
	if storetest.OnPostgres() {
		expectOwnMessages(w.t, w.gw.Database)
		return
	}
	db, err := dbfile.OpenReadOnly(w.gw.Database)
	if err != nil {
		return
	}
	defer db.Close()
	var shared string
	if db.QueryRow(sharedMessages(false)).Scan(&shared) == nil {
		w.t.Errorf("two replies are one message: %q", shared)
	}
}

// expectSound checks a database file with the checks of SQLite and of `gateway verify`.
func (w *world) expectSound(db *sql.DB) {
	w.t.Helper()
	if got := column(w.t, db, `PRAGMA integrity_check`); !slices.Equal(got, []string{"ok"}) {
		w.t.Errorf("integrity_check: %v", got)
	}
	if got := column(w.t, db, `PRAGMA foreign_key_check`); len(got) > 0 {
		w.t.Errorf("foreign_key_check: %v", got)
	}
	for _, table := range []string{"messages_fts", "messages_ranks"} {
		if _, err := db.Exec(`INSERT INTO ` + table + ` (` + table + `, rank) VALUES ('integrity-check', 1)`); err != nil {
			w.t.Errorf("the search index %s does not match the messages: %v", table, err)
		}
	}
	if said := w.runCommand(0, "verify"); !strings.Contains(said, "is whole") {
		w.t.Errorf("gateway verify: %s", said)
	}
}

// expectHistory checks one session: its messages are numbered from 1 without gaps; each message that
// was written in its chats is there once, in order; and the messages that a run took, all of one chat,
// are followed by one answer, which names them. Tool calls are skipped.
func (w *world) expectHistory(db *sql.DB, key string, said map[int][]string) {
	w.t.Helper()
	rows, err := db.Query(`
		SELECT m.seq, m.run_id, m.role, m.content, m.role = 'tool' OR m.tool_calls IS NOT NULL FROM messages m
		JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE s.key = ? ORDER BY c.id, m.seq`, key)
	w.must(err)
	defer rows.Close()
	var open []string
	heard := map[int]int{} // by chat, how many of its messages
	run, place := int64(0), 0
	for n := int64(1); rows.Next(); n++ {
		var seq, of int64
		var role, content string
		var ofTools bool
		w.must(rows.Scan(&seq, &of, &role, &content, &ofTools))
		if seq != n {
			w.t.Fatalf("%s: seq %d, want %d", key, seq, n)
		}
		if len(open) > 0 && of != run {
			w.t.Fatalf("%s: run %d is not whole at seq %d", key, run, seq)
		}
		run = of
		if ofTools {
			continue
		}
		if role == "user" {
			chat := expectingChat(said, heard, content)
			if chat == 0 || len(open) > 0 && chat != place {
				w.t.Fatalf("%s: seq %d, of run %d, is %q, which was not written next in any chat", key, seq, run, content)
			}
			open, place = append(open, content), chat
			continue
		}
		if want := "re " + strings.Join(open, " "); content != want || role != "assistant" {
			w.t.Fatalf("%s: seq %d is %s %q, want the answer %q", key, seq, role, content, want)
		}
		open = nil
	}
	w.must(rows.Err())
	if len(open) > 0 {
		w.t.Errorf("%s: its history ends without an answer to %q", key, open)
	}
	for chat, texts := range said {
		if heard[chat] < len(texts) {
			w.t.Errorf("%s: its history holds %d messages of chat %d, and %d were written", key, heard[chat], chat, len(texts))
		}
	}
}

// expectingChat returns the chat whose next message is text, and counts it in heard. It returns 0 if
// there is none.
func expectingChat(said map[int][]string, heard map[int]int, text string) (chat int) {
	for chat, texts := range said {
		if n := heard[chat]; n < len(texts) && texts[n] == text {
			heard[chat]++
			return chat
		}
	}
	return 0
}

func firstDifference(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// expectReplies checks that a chat got exactly these replies.
func (w *world) expectReplies(chat int, want ...string) {
	w.t.Helper()
	if got := w.platform.sent(chat); !slices.Equal(got, want) {
		w.t.Errorf("chat %d got %q, want %q", chat, got, want)
	}
}

// expectAnsweredOnce checks that the replies of every chat name each of its messages once, in order.
func (w *world) expectAnsweredOnce() {
	w.t.Helper()
	for chat := range w.said {
		w.expectEachAnsweredOnce(chat)
	}
}

func (w *world) expectEachAnsweredOnce(chat int) {
	w.t.Helper()
	var named []string
	for _, reply := range w.platform.sent(chat) {
		named = append(named, strings.Fields(reply)[1:]...)
	}
	w.expectNamed(chat, named, w.said[chat])
}

func (w *world) expectNamed(chat int, named, said []string) {
	w.t.Helper()
	if slices.Equal(named, said) {
		return
	}
	n := firstDifference(named, said)
	w.t.Errorf("chat %d: the replies name %d messages, and %d were written; they differ from number %d on: %q, %q",
		chat, len(named), len(said), n+1, head(named[n:], 3), head(said[n:], 3))
}

func head(list []string, n int) []string { return list[:min(n, len(list))] }
