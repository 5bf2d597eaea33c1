package maintenance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"parley/conversation"
	"parley/conversation/branches"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
)

// row is a message as the tests compare it.
type row struct {
	session      string
	conversation string
	seq          int64
	text         string
}

// stored returns the messages of a database, ordered by session, conversation and seq.
func stored(t *testing.T, path string) (list []row) {
	t.Helper()
	db, err := openToRead(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT s.key, c.uuid, m.seq, m.role || ': ' || m.content || coalesce(m.tool_calls, '') FROM messages m
		JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id ORDER BY s.key, c.uuid, m.seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.session, &r.conversation, &r.seq, &r.text); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func mustVerify(t *testing.T, path string) (texts []string, lost bool) {
	t.Helper()
	v, err := Verify(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range v.Findings {
		texts = append(texts, f.Text)
		lost = lost || f.Lost
	}
	return texts, lost
}

func mustRepair(t *testing.T, path string) (repaired string, r Repaired) {
	t.Helper()
	repaired = filepath.Join(t.TempDir(), "new.db")
	before := contentOf(t, path)
	r, err := Repair(t.Context(), path, repaired, RepairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, contentOf(t, path)) {
		t.Error("the old file was changed")
	}
	if texts, _ := mustVerify(t, repaired); len(texts) > 0 {
		t.Errorf("the new file has problems: %q", texts)
	}
	if got := names(t, filepath.Dir(repaired)); !slices.Equal(got, []string{"new.db"}) {
		t.Errorf("the folder holds %v", got)
	}
	return repaired, r
}

// compare returns how many messages of the old database are marked as lost in
// the new one. All others are as they were, and none is new.
func compare(t *testing.T, old []row, path string) (lost int) {
	t.Helper()
	kept := map[string]string{}
	at := func(r row) string { return fmt.Sprintf("%s/%s/%d", r.session, r.conversation, r.seq) }
	for _, r := range stored(t, path) {
		kept[at(r)] = r.text
	}
	for _, r := range old {
		switch text, ok := kept[at(r)]; {
		case !ok:
			t.Errorf("%s is not in the new file", at(r))
		case text == "system: "+lostText:
			lost++
		case text != r.text:
			t.Errorf("%s is %.40q, was %.40q", at(r), text, r.text)
		}
		delete(kept, at(r))
	}
	if len(kept) > 0 {
		t.Errorf("the new file has more: %v", kept)
	}
	return lost
}

// sampleDatabase holds the file that makeSampleDatabase has made, which takes a while.
var sampleDatabase struct {
	sync.Mutex
	file []byte
}

// newSampleDatabase returns the path of a database with long and short messages in several sessions and
// conversations, tool calls, waiting messages and due replies.
func newSampleDatabase(t *testing.T) (path string) {
	t.Helper()
	sampleDatabase.Lock()
	defer sampleDatabase.Unlock()
	if sampleDatabase.file == nil {
		sampleDatabase.file = contentOf(t, makeSampleDatabase(t))
	}
	path = filepath.Join(t.TempDir(), "conversations.db")
	if err := os.WriteFile(path, sampleDatabase.file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func makeSampleDatabase(t *testing.T) (path string) {
	t.Helper()
	path = newDatabase(t, 150, 150, 150)
	s, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 6 {
		addTurn(t, s, "cli:long", n+1, strings.Repeat(fmt.Sprintf("a long message, number %d. ", n), 1000))
		call(t, s, "cli:tools", n+1)
	}
	addTurn(t, s, "cli:s1", 1000, "before the conversation ends")
	if _, err := s.Archive(t.Context(), "cli:s1", ""); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		addTurn(t, s, "cli:s1", 1001+n, fmt.Sprintf("question %d of another conversation", n))
	}
	branch(t, s, "cli:s1")
	if _, err := s.Accept(t.Context(), nil, conversation.Inbound{Key: "cli:s2", SourceID: "waits", Address: "x", Text: "I wait"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

// branch stores an edit of the newest question of a session, and chooses the earlier version again.
func branch(t *testing.T, s *conversation.Store, key conversation.Key) {
	t.Helper()
	if _, err := s.Accept(t.Context(), nil, conversation.Inbound{Key: key, SourceID: "edit", Address: "x", Text: "edited"}); err != nil {
		t.Fatal(err)
	}
	turn, err := s.Begin(t.Context(), key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	earlier := turn.History[len(turn.History)-2].Seq
	done, err := s.Commit(t.Context(), conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Effect: conversation.Effect{Undo: earlier},
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, Content: "edited", Tokens: 5, SourceID: "edit"}, {Role: conversation.RoleAssistant, Content: "answered anew", Tokens: 5},
		},
	})
	if err == nil {
		err = branches.New(s).Choose(t.Context(), done.Conversation, earlier)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// call stores a question whose run calls a tool.
func call(t *testing.T, s *conversation.Store, key conversation.Key, n int) {
	t.Helper()
	in := conversation.Inbound{Key: key, SourceID: fmt.Sprint("call", n), Address: "x", Text: fmt.Sprint("what time is it, ", n)}
	if _, err := s.Accept(t.Context(), nil, in); err != nil {
		t.Fatal(err)
	}
	turn, err := s.Begin(t.Context(), key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint("call_", n)
	_, err = s.Commit(t.Context(), conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, Content: in.Text, Tokens: 5, SourceID: in.SourceID},
			{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: id, Name: "current_time", Arguments: "{}"}}, Tokens: 5},
			{Role: conversation.RoleTool, Content: "noon", ToolCallID: id, ToolName: "current_time", Tokens: 5},
			{Role: conversation.RoleAssistant, Content: "It is noon.", Tokens: 5},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFindsNothingInAWholeDatabase(t *testing.T) {
	t.Parallel()
	database := newSampleDatabase(t)
	if texts, _ := mustVerify(t, database); len(texts) > 0 {
		t.Errorf("found %q", texts)
	}
	writer := startDatabaseUser(t, database, true)
	for range 5 {
		writer.await(t, 10)
		if texts, _ := mustVerify(t, database); len(texts) > 0 {
			t.Errorf("while it is written: found %q", texts)
		}
	}
	writer.kill()
	before := [2]string{string(contentOf(t, database)), string(contentOf(t, database+"-wal"))}
	v, err := Verify(t.Context(), database, nil)
	if err != nil || len(v.Findings) > 0 {
		t.Errorf("after a kill: found %v, %v", v.Findings, err)
	}
	if after := [2]string{string(contentOf(t, database)), string(contentOf(t, database+"-wal"))}; before != after {
		t.Error("verifying has changed the files")
	}
	if v.Sessions != 6 {
		t.Errorf("it says %+v", v.Contents)
	}
	if texts, _ := mustVerify(t, "../../conversations.db.example"); len(texts) > 0 {
		t.Errorf("in the example: found %q", texts)
	}
}

func TestRepairOfAWholeDatabaseKeepsAllOfIt(t *testing.T) {
	t.Parallel()
	database := newSampleDatabase(t)
	old := stored(t, database)
	repaired, r := mustRepair(t, database)
	if lost := compare(t, old, repaired); lost > 0 || len(r.Losses) > 0 {
		t.Errorf("%d messages are lost: %v", lost, r.Losses)
	}
	for _, table := range []string{"sessions", "conversations", "runs", "inbox", "outbox", "participants", "run_totals", "run_people", "run_durations",
		"cursors", "exchange_counts", "branches", "branch_states", "messages_fts_docsize", "messages_ranks_docsize"} {
		query := `SELECT count(*) FROM ` + table
		if was, is := number(t, database, query), number(t, repaired, query); was != is {
			t.Errorf("%s has %d rows, had %d", table, is, was)
		}
	}
	for _, table := range []string{"runs", "inbox", "outbox", "cursors", "conversations", "branches", "branch_states", "run_people"} {
		if was, is := dump(t, database, table), dump(t, repaired, table); was != is {
			t.Errorf("%s holds\n%s\nheld\n%s", table, is, was)
		}
	}
}

// dump returns a table as text, without the values that differ between copies.
func dump(t *testing.T, path, table string) string {
	t.Helper()
	db, err := openToRead(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	columns, err := firstColumn(t.Context(), db, `SELECT 'quote("' || name || '")' FROM pragma_table_info(?)`, table)
	if err != nil {
		t.Fatal(err)
	}
	where := ""
	if table == "cursors" {
		where = ` WHERE name NOT LIKE 'messages_fts%' AND name NOT LIKE 'messages_ranks%'`
	}
	rows, err := firstColumn(t.Context(), db, `SELECT `+strings.Join(columns, ` || ',' || `)+` FROM `+table+where)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(rows, "\n")
}

// The messages on damaged pages are named by session, conversation and number, and all others are saved.
func TestVerifyNamesWhatDamagedPagesHit(t *testing.T) {
	t.Parallel()
	database := newSampleDatabase(t)
	old := stored(t, database)
	damage(t, database, "messages", 3)
	texts, lost := mustVerify(t, database)
	if !lost {
		t.Errorf("it says that nothing is lost: %q", texts)
	}
	repaired, r := mustRepair(t, database)
	n := compare(t, old, repaired)
	if n < 3 || n > 200 {
		t.Errorf("%d messages are lost", n)
	}
	if len(r.Losses) == 0 {
		t.Error("the repair says that nothing is lost")
	}
	named := 0
	for _, m := range stored(t, repaired) {
		if m.text != "system: "+lostText {
			continue
		}
		for _, text := range texts {
			var first, last int64
			_, numbers, _ := strings.Cut(text, ": message")
			if !strings.HasPrefix(text, m.session+", conversation "+m.conversation) {
				continue
			}
			if _, err := fmt.Sscanf(numbers, "s %d to %d", &first, &last); err != nil {
				if _, err := fmt.Sscanf(numbers, " %d", &first); err != nil {
					continue
				}
				last = first
			}
			if first <= m.seq && m.seq <= last && strings.Contains(text, "written ") {
				named++
				break
			}
		}
	}
	if named != n {
		t.Errorf("of %d lost messages, %d are named in %q", n, named, texts)
	}
}

// Rows below a damaged interior page are saved.
func TestRepairSavesRowsBelowADamagedInteriorPage(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"messages", "inbox", "runs"} {
		database := newSampleDatabase(t)
		old := stored(t, database)
		rows := number(t, database, `SELECT count(*) FROM `+table)
		overwrite(t, database, number(t, database, `SELECT rootpage FROM sqlite_schema WHERE name = '`+table+`'`), 0xA5)
		if texts, _ := mustVerify(t, database); len(texts) == 0 {
			t.Errorf("%s: nothing is found", table)
		}
		repaired, _ := mustRepair(t, database)
		if lost := compare(t, old, repaired); lost > 0 {
			t.Errorf("%s: %d messages are lost", table, lost)
		}
		if n := number(t, repaired, `SELECT count(*) FROM `+table); n != rows {
			t.Errorf("%s: %d of %d rows are saved", table, n, rows)
		}
	}
}

func overwrite(t *testing.T, path string, page int64, with byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(slices.Repeat([]byte{with}, 4096), (page-1)*4096); err != nil {
		t.Fatal(err)
	}
}

// The first page holds the file's header and where its list of tables is.
func TestRepairWithoutTheFirstPage(t *testing.T) {
	t.Parallel()
	for _, with := range []byte{0, 0xA5} {
		database := newSampleDatabase(t)
		old := stored(t, database)
		overwrite(t, database, 1, with)
		if texts, _ := mustVerify(t, database); len(texts) == 0 || !strings.Contains(texts[0], "beginning of the file") {
			t.Errorf("found %q", texts)
		}
		repaired, _ := mustRepair(t, database)
		if lost := compare(t, old, repaired); lost > 0 {
			t.Errorf("%d messages are lost", lost)
		}
	}
}

// When a part of the list of tables is lost, rows are assigned to their tables by their columns.
func TestRepairWithoutTheListOfTables(t *testing.T) {
	t.Parallel()
	database := newSampleDatabase(t)
	old := stored(t, database)
	file, err := os.Open(database)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4096)
	if _, err := file.ReadAt(first, 0); err != nil {
		t.Fatal(err)
	}
	file.Close()
	for i := range int(binary.BigEndian.Uint16(first[103:])) {
		cell := binary.BigEndian.Uint16(first[112+2*i:])
		page := int64(binary.BigEndian.Uint32(first[cell:]))
		t.Run(fmt.Sprint("page ", page), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "conversations.db")
			copyFile(t, database, path)
			overwrite(t, path, page, 0xA5)
			if texts, _ := mustVerify(t, path); len(texts) == 0 {
				t.Error("nothing is found")
			}
			repaired, r := mustRepair(t, path)
			if lost := compare(t, old, repaired); lost > 0 {
				t.Errorf("%d messages are lost: %v", lost, r.Losses)
			}
		})
	}
}

// Keys of sessions and ids of conversations are also read from an index.
func TestRepairNamesSessionsByTheirIndex(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"sessions", "conversations"} {
		database := newSampleDatabase(t)
		old := stored(t, database)
		overwrite(t, database, number(t, database, `SELECT rootpage FROM sqlite_schema WHERE name = '`+table+`'`), 0)
		repaired, _ := mustRepair(t, database)
		if lost := compare(t, old, repaired); lost > 0 {
			t.Errorf("%s: %d messages are lost", table, lost)
		}
		if was, is := number(t, repaired, `SELECT count(*) FROM conversations WHERE active = 1`), int64(5); was != is {
			t.Errorf("%s: %d conversations are active, were %d", table, was, is)
		}
		answerInEverySession(t, repaired)
	}
}

// answerInEverySession stores a question and its answer in every session of a database.
func answerInEverySession(t *testing.T, path string) {
	t.Helper()
	s, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range list {
		if err := answerOnce(t.Context(), s, session.Key); err != nil {
			t.Errorf("%s: %v", session.Key, err)
		}
	}
}

func answerOnce(ctx context.Context, s *conversation.Store, key conversation.Key) error {
	if _, err := s.Accept(ctx, nil, conversation.Inbound{Key: key, SourceID: "on " + string(key), Address: "x", Text: "go on"}); err != nil {
		return err
	}
	turn, err := s.Begin(ctx, key, 10_000)
	if err != nil {
		return err
	}
	if n := len(turn.Waiting); n == 0 || turn.Waiting[n-1].Text != "go on" {
		return fmt.Errorf("%v waits", turn.Waiting)
	}
	_, err = s.Commit(ctx, conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: "go on", Tokens: 1}, {Role: conversation.RoleAssistant, Content: "yes", Tokens: 1}},
	})
	return err
}

// Damage in an index, or in the search index, loses nothing, and verify says so.
func TestVerifyDistinguishesIndexesFromMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it verifies many databases")
	}
	t.Parallel()
	for name, want := range map[string]string{
		"sqlite_autoindex_messages_1": "index sqlite_autoindex_messages_1",
		"sqlite_autoindex_inbox_1":    "index sqlite_autoindex_inbox_1",
		"messages_fts_data":           "search index",
		"messages_ranks_data":         "search index",
	} {
		database := newSampleDatabase(t)
		old := stored(t, database)
		damage(t, database, name, 1)
		texts, lost := mustVerify(t, database)
		if len(texts) == 0 || lost || !strings.Contains(strings.Join(texts, "\n"), want) {
			t.Errorf("%s: found %q, lost %v", name, texts, lost)
		}
		repaired, r := mustRepair(t, database)
		if n := compare(t, old, repaired); n > 0 || len(r.Losses) > 0 {
			t.Errorf("%s: %d messages are lost: %v", name, n, r.Losses)
		}
		s, err := conversation.Open(t.Context(), conversation.Config{Path: repaired})
		if err != nil {
			t.Fatal(err)
		}
		hits, err := search.New(s).Find(t.Context(), search.Query{Words: "question 77 session 2", Limit: 1})
		if err != nil || len(hits) == 0 {
			t.Errorf("%s: search finds %v, %v", name, hits, err)
		}
		s.Close()
	}
}

// Waiting messages that are lost are named by session.
func TestVerifyNamesLostWork(t *testing.T) {
	t.Parallel()
	database := newSampleDatabase(t)
	leaves := dbdamage.Leaves(t, database, "inbox")
	dbdamage.Destroy(t, database, leaves[len(leaves)-1]) // holds the newest messages
	texts, _ := mustVerify(t, database)
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, "cli:s2: 1 message that waits") }) {
		t.Errorf("found %q", texts)
	}
}

// Whatever is lost of the branches of a conversation, the chosen branch stays, and continues after its last
// message.
func TestRepairKeepsTheChosenBranch(t *testing.T) {
	t.Parallel()
	const visible = `SELECT group_concat(seq) FROM (SELECT seq FROM messages WHERE state NOT IN ('replaced', 'undone') AND internal = 0 ORDER BY seq)`
	for name, tt := range map[string]struct {
		statement string
		verified  string
	}{
		"nothing":                      {`SELECT 1`, ""},
		"where branches begin":         {`DELETE FROM branches`, ""},
		"where the chosen branch ends": {`UPDATE conversations SET tip = 0`, "its branches contradict"},
		"the chosen branch is nowhere": {`UPDATE conversations SET tip = 99`, "its branches contradict"},
		"a branch follows itself":      {`UPDATE branches SET parent = 99`, "its branches contradict"},
		"the state of a branch":        {`UPDATE branch_states SET state = '{'`, "its branches contradict"},
		"how a message is set aside":   {`UPDATE messages SET set_aside = 'x' WHERE set_aside IS NOT NULL`, "set aside in an unknown way"},
		"its state":                    {`UPDATE messages SET state = '' WHERE set_aside IS NOT NULL`, "set aside in an unknown way"},
		"the conversation":             {`PRAGMA foreign_keys = OFF; DELETE FROM conversations WHERE id = 1`, ""},
		"a message set aside":          {`DELETE FROM messages WHERE seq = 5`, "it should have"},
	} {
		database := newDatabase(t, 2)
		s, err := conversation.Open(t.Context(), conversation.Config{Path: database})
		if err != nil {
			t.Fatal(err)
		}
		branch(t, s, "cli:s1")
		s.Close()
		execute(t, database, tt.statement)
		if found, _ := mustVerify(t, database); tt.verified != "" && !strings.Contains(strings.Join(found, " "), tt.verified) {
			t.Errorf("%s: verify finds %q", name, found)
		}
		repaired, _ := mustRepair(t, database)
		db, err := openToRead(repaired)
		if err != nil {
			t.Fatal(err)
		}
		got, err := firstColumn(t.Context(), db, visible)
		db.Close()
		if tip := number(t, repaired, `SELECT tip FROM conversations`); err != nil || got[0] != "1,2,3,4" || tip != 4 {
			t.Errorf("%s: the talk is %v, its branch ends with %d, %v", name, got, tip, err)
		}
	}
}

// Verify checks rules between tables that SQLite does not know.
func TestVerifyFindsContradictionsBetweenTables(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it breaks every table in turn")
	}
	t.Parallel()
	whole := newDatabase(t, 20, 20, 20)
	s := storetest.Open(t, whole)
	if _, err := s.Archive(t.Context(), "cli:s1", ""); err != nil {
		t.Fatal(err)
	}
	addTurn(t, s, "cli:s1", 50, "anew")
	s.Close()
	for name, tt := range map[string]struct{ statement, want string }{
		"gap":             {`DELETE FROM messages WHERE seq = 7 AND conversation_id = 2`, "cli:s2, conversation"},
		"count":           {`UPDATE conversations SET messages = messages + 2 WHERE id = 2`, "cli:s2, conversation"},
		"active":          {`DROP INDEX conversations_active; UPDATE conversations SET active = 1`, "cli:s1: 2 conversations are active"},
		"deleted":         {`UPDATE conversations SET deleted = 1 WHERE id = 2`, "it is deleted, and active"},
		"reference":       {`DELETE FROM sessions WHERE key = 'cli:s3'`, "rows of sessions which do not exist"},
		"run":             {`DELETE FROM inbox; DELETE FROM outbox; DELETE FROM runs WHERE id = 3`, "belongs to run 3"},
		"role":            {`UPDATE messages SET role = 'usEr' WHERE id = 5`, "message 5, written"},
		"calls":           {`UPDATE messages SET tool_calls = '[{' WHERE id = 6`, "message 6, written"},
		"state":           {`UPDATE conversations SET state = '{' WHERE id = 1`, "its state or metadata can't be understood"},
		"attachments":     {`UPDATE inbox SET attachments = '?' WHERE id = 1`, "a message that came by cli"},
		"outbox":          {`UPDATE outbox SET state = 'dUe' WHERE id = 1`, "reply 1 is neither"},
		"options":         {`UPDATE inbox SET options = '?' WHERE id = 1`, "a message that came by cli"},
		"metadata":        {`UPDATE conversations SET metadata = '{' WHERE id = 1`, "its state or metadata can't be understood"},
		"carried":         {`UPDATE sessions SET carried = '{' WHERE key = 'cli:s2'`, "cli:s2: its metadata or instructions"},
		"imported":        {fillTables + `UPDATE imported_runs SET steps = '['`, "the imported run"},
		"journal":         {fillTables + `UPDATE journals SET took = '['`, "which is under way, can't be understood"},
		"journal entry":   {fillTables + `DELETE FROM journal_entries WHERE n = 1`, "which is under way, can't be understood"},
		"question":        {fillTables + `UPDATE approvals SET form = '{'`, "about a tool call, can't be understood"},
		"tools":           {fillTables + `UPDATE tool_lists SET tools = '['`, "the server files has listed can't be understood"},
		"instructions":    {fillTables + `UPDATE run_instructions SET list = '['`, "instructions that were in force"},
		"model call":      {fillTables + `UPDATE background_steps SET step = '{'`, "a model call behind its run"},
		"group talk":      {fillTables + `UPDATE group_talk SET sender = '{'`, "cli:s1: who said something"},
		"steps":           {`UPDATE runs SET steps = '[' WHERE id = 4`, "run 4"},
		"search, missing": {`DELETE FROM messages_fts WHERE rowid = 1 << 24 | 5`, "lacks 1 messages"},
		"search, more":    {`INSERT INTO messages_fts (rowid, words) VALUES (1 << 24 | 9999, 'x')`, "1 entries of messages that do not exist"},
		"ranks, missing":  {`DELETE FROM messages_ranks WHERE rowid = 1 << 24 | 5`, "lack 1 messages"},
		"ranks, more":     {`INSERT INTO messages_ranks (rowid, said) VALUES (1 << 24 | 9999, 'x')`, "1 entries of messages that do not exist"},
		"pages, more":     {`INSERT INTO file_pages VALUES (1 << 24 | 1 << 23, NULL, 0)`, "other pages of files than there are"},
		"vectors, more":   {`INSERT INTO vectors VALUES (1 << 24 | 9999, 1, x'00')`, "1 vectors of messages that do not exist"},
		"vectors, parts":  {`INSERT INTO vector_signs VALUES (1 << 24 | 5, 1, x'00')`, "Of 1 vectors a part is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			database := filepath.Join(t.TempDir(), "conversations.db")
			copyFile(t, whole, database)
			execute(t, database, `PRAGMA foreign_keys = OFF; `+tt.statement)
			texts, _ := mustVerify(t, database)
			if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, tt.want) }) {
				t.Errorf("found %q, want %q", texts, tt.want)
			}
			repaired, _ := mustRepair(t, database)
			if texts, _ := mustVerify(t, repaired); len(texts) > 0 {
				t.Errorf("after the repair: found %q", texts)
			}
		})
	}
}

// fillTables puts rows into tables that an ordinary chat does not fill.
const fillTables = `
	INSERT INTO imported_runs SELECT conversation_id, id, kind, status, model, rounds, prompt_tokens, cached_tokens, completion_tokens, error,
		started_at, ended_at, sender, messages, steps, finish_reason, new_conversation, instructions, agent, warnings, cost FROM runs WHERE conversation_id IS NOT NULL LIMIT 3;
	INSERT INTO run_instructions VALUES ((SELECT min(id) FROM conversations), 'hash', '["be brief"]');
	INSERT INTO background_steps VALUES (1, (SELECT min(id) FROM conversations), 1, '{}', 0);
	INSERT INTO tool_lists VALUES ('files', 'hash', '{}', 0);
	INSERT INTO group_talk (session, source_id, sender, text, created_at) VALUES ('cli:s1', 'g1', '{}', 'aside', 0);
	INSERT INTO reminders (session_id, number, channel, account, origin, address, person, name, in_group, text, zone, starts_at, rule, next_at, created_at)
		VALUES ((SELECT min(id) FROM sessions), 1, 'cli', '', 'cli:s1', '', 'local', 'you', 0, 'call Ben', 'UTC', 0, '', 0, 0);
	INSERT INTO time_zones VALUES ('cli', 'local', 'UTC', 0);
	INSERT INTO paces VALUES ('telegram:42', 0);
	INSERT INTO approvals (run_id, session_id, channel, account, round, call_id, tool, arguments, askers, rememberable, asked_at, expires_at, form)
		SELECT max(id), session_id, 'cli', '', 1, 'a', 'pay', '{}', '[]', 0, 0, 0, '{}' FROM inbox;
	INSERT INTO budget_days VALUES ('2026-11-22', 'total', '', 1, 1, 0);
	INSERT INTO embedding_totals VALUES (490000, 'm', 2, 1, 14, 7000);
	INSERT INTO budget_reservations VALUES (1, 'p', '2026-11-22', '', '', 1, 1, 0);
	INSERT INTO journals SELECT max(id), session_id, 'cli', '', '[]', 0, 0 FROM inbox;
	INSERT INTO journal_entries SELECT run_id, 1, '{}' FROM journals UNION ALL SELECT run_id, 2, '{}' FROM journals; `

// Whichever table is damaged, the rows of all others are saved, and every session works.
func TestRepairAfterDamageInAnyTable(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it breaks every table in turn")
	}
	t.Parallel()
	database := filepath.Join(t.TempDir(), "conversations.db")
	copyFile(t, "../../conversations.db.example", database)
	execute(t, database, fillTables)
	db, err := openToRead(database)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := firstColumn(t.Context(), db, `SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 1
		AND name NOT LIKE 'messages\_%' ESCAPE '\' AND name <> 'blob_pieces'`) // other tests damage the index of words, and files
	db.Close()
	if err != nil || len(tables) < 30 {
		t.Fatalf("tables: %q, %v", tables, err)
	}
	for _, table := range tables {
		t.Run(table, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "conversations.db")
			copyFile(t, database, path)
			overwrite(t, path, number(t, path, `SELECT rootpage FROM sqlite_schema WHERE name = '`+table+`'`), 0xA5)
			if texts, _ := mustVerify(t, path); len(texts) == 0 {
				t.Error("nothing is found")
			}
			repaired, _ := mustRepair(t, path)
			if texts, _ := mustVerify(t, repaired); len(texts) > 0 {
				t.Errorf("after the repair: found %q", texts)
			}
			answerInEverySession(t, repaired)
		})
	}
}

// After a repair, no conversation has a result without its call or a call without its result, which a
// model's server would refuse.
func TestRepairTakesIncompleteToolCallsOutOfTheConversation(t *testing.T) {
	t.Parallel()
	for seq, want := range map[int64]string{
		2: "1 user, 4 assistant",         // the calls
		3: "1 user, 4 assistant",         // the result
		4: "1 user, 2 assistant, 3 tool", // the answer
	} {
		database := filepath.Join(t.TempDir(), "conversations.db")
		s, err := conversation.Open(t.Context(), conversation.Config{Path: database})
		if err != nil {
			t.Fatal(err)
		}
		call(t, s, "cli:tools", 1)
		s.Close()
		execute(t, database, fmt.Sprintf(`DELETE FROM messages WHERE seq = %d`, seq))
		repaired, _ := mustRepair(t, database)
		db, err := openToRead(repaired)
		if err != nil {
			t.Fatal(err)
		}
		got, err := firstColumn(t.Context(), db, `SELECT group_concat(seq || ' ' || role, ', ' ORDER BY seq) FROM messages WHERE internal = 0`)
		db.Close()
		if err != nil || got[0] != want {
			t.Errorf("without message %d, the conversation is %v, want %q (%v)", seq, got, want, err)
		}
	}
}

func TestRepairRefusesWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "new.db")
	if _, err := Repair(t.Context(), path, target, RepairOptions{}); err == nil || !strings.Contains(err.Error(), "restore a copy") {
		t.Errorf("it says %v", err)
	}
	if _, err := Verify(t.Context(), path, nil); err == nil || err.Error() != path+": it is not a SQLite database (file is not a database)" {
		t.Errorf("verify says %v", err)
	}
	if got := names(t, filepath.Dir(target)); len(got) > 0 {
		t.Errorf("the folder holds %v", got)
	}
	cut := filepath.Join(t.TempDir(), "cut.db")
	copyFile(t, newDatabase(t, 1), cut)
	if err := os.Truncate(cut, 4096); err != nil {
		t.Fatal(err)
	}
	want := cut + ": no table of a gateway can be found in the file: restore a copy"
	if _, err := Repair(t.Context(), cut, target, RepairOptions{}); err == nil || err.Error() != want {
		t.Errorf("repair says %v", err)
	}
	if _, err := Verify(t.Context(), cut, nil); err == nil || err.Error() != want {
		t.Errorf("verify says %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing.db")
	if _, err := Repair(t.Context(), missing, target, RepairOptions{}); err == nil || !strings.HasPrefix(err.Error(), "there is no file "+missing) {
		t.Errorf("it says %v", err)
	}
	if _, err := Verify(t.Context(), missing, nil); err == nil || !strings.HasPrefix(err.Error(), "there is no file "+missing) {
		t.Errorf("verify says %v", err)
	}
	if got := names(t, filepath.Dir(missing)); len(got) > 0 {
		t.Errorf("the folder of a missing file holds %v", got)
	}
}

// A damaged disk is often made read-only by the system. What can be read of a database there is saved elsewhere.
func TestRepairOnAReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 5)
	dir := filepath.Dir(database)
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("skipped: mounting needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	writer := startDatabaseUser(t, database, true)
	writer.await(t, 5)
	writer.kill() // leaves a log
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if texts, _ := mustVerify(t, database); len(texts) > 0 {
		t.Errorf("verify found %q", texts)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if _, err := Backup(t.Context(), database, copied, BackupOptions{}); err != nil {
		t.Error(err)
	}
	repaired, r := mustRepair(t, database)
	if n, want := number(t, repaired, messages), number(t, copied, messages); len(r.Losses) > 0 || n != want || n <= 10 {
		t.Errorf("%d messages are saved, want %d; %+v", n, want, r)
	}
}

// The log of another file is left out, and reported.
func TestRepairLeavesOutTheLogOfAnotherFile(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, 5)
	copied := mustBackup(t, newDatabase(t, 7))
	writer := startDatabaseUser(t, database, true)
	writer.await(t, 5)
	var inUse *db.InUseError
	if _, err := Repair(t.Context(), database, filepath.Join(t.TempDir(), "new.db"), RepairOptions{}); !errors.As(err, &inUse) {
		t.Errorf("while it is used: %v", err)
	}
	writer.kill()
	copyFile(t, copied, database)
	if texts, _ := mustVerify(t, database); len(texts) != 1 || !strings.Contains(texts[0], "written for another file") {
		t.Errorf("found %q", texts)
	}
	repaired, r := mustRepair(t, database)
	if n := number(t, repaired, messages); !r.Log || n != 14 {
		t.Errorf("it says %+v and has saved %d messages", r, n)
	}
}

// Whatever pages are overwritten, nothing panics, saved rows are unchanged, and the new database has no
// problems.
func TestRepairAfterAnyDamage(t *testing.T) {
	t.Parallel()
	original := newSampleDatabase(t)
	old := stored(t, original)
	content := contentOf(t, original)
	pages := len(content) / 4096
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		damaged := slices.Clone(content)
		var hit []int
		for range 1 + random.IntN(8) {
			page := random.IntN(pages)
			hit = append(hit, page+1)
			switch bytes := damaged[page*4096 : (page+1)*4096]; random.IntN(3) {
			case 0:
				clear(bytes)
			case 1:
				for i := range bytes {
					bytes[i] = byte(random.IntN(256))
				}
			case 2: // of another page
				copy(bytes, content[random.IntN(pages)*4096:][:4096])
			}
		}
		if random.IntN(5) == 0 {
			damaged = damaged[:len(damaged)-random.IntN(len(damaged)/2)]
		}
		path := filepath.Join(t.TempDir(), "conversations.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), path, nil); err != nil {
			t.Errorf("round %d, pages %v: verify: %v", round, hit, err)
		}
		repaired := filepath.Join(t.TempDir(), "new.db")
		if _, err := Repair(t.Context(), path, repaired, RepairOptions{}); err != nil {
			t.Errorf("round %d, pages %v: repair: %v", round, hit, err)
			continue
		}
		kept := map[string]bool{}
		for _, r := range old {
			kept[r.text] = true
		}
		for _, r := range stored(t, repaired) {
			if len(r.text) > 2000 { // it goes on in pages that hold nothing but text
				continue
			}
			if r.text != "system: "+lostText && !kept[r.text] {
				t.Errorf("round %d, pages %v: %s has a new message %.50q", round, hit, r.session, r.text)
			}
		}
		if texts, _ := mustVerify(t, repaired); len(texts) > 0 {
			t.Errorf("round %d, pages %v: the new file has problems: %q", round, hit, texts)
		}
		answerInEverySession(t, repaired)
	}
}
