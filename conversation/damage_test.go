package conversation_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
	"parley/conversation/retention"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
	"parley/internal/waittest"
)

// damagedDatabase is a database with three sessions, one of which is damaged.
type damagedDatabase struct {
	*conversation.Store
	t    *testing.T
	path string
	log  *waittest.Buffer
}

const (
	before = conversation.Key("telegram:chat:1")
	victim = conversation.Key("telegram:chat:2")
	behind = conversation.Key("telegram:chat:3")
)

// wordOf returns a word that only one session has.
func wordOf(key conversation.Key) string { return "word" + string(key[len(key)-1]) }

const damagedTurns = 40

// newDamagedDatabase fills a database, calls change, and overwrites the page of a table or an index that
// choose returns.
func newDamagedDatabase(t *testing.T, table string, choose func(leaves []dbdamage.Page) dbdamage.Page, change func(s *conversation.Store)) *damagedDatabase {
	t.Helper()
	storetest.NeedsSQLite(t)
	i := &damagedDatabase{t: t, path: filepath.Join(t.TempDir(), "test.db"), log: &waittest.Buffer{}}
	s := storetest.Open(t, i.path)
	for _, key := range []conversation.Key{before, victim, behind} {
		for n := range damagedTurns {
			storetest.Accept(t, s, storetest.Say(key, n, strings.Repeat(wordOf(key)+" ", 60)))
			run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), strings.Repeat(wordOf(key)+" ", 60))
			run.Model, run.Prompt = "fake", 1
			storetest.Commit(t, s, run)
		}
	}
	// The chores are to be done over the damage, as after a migration, and not between two of these statements.
	s.DB().StopChores()
	for _, statement := range []string{
		`DELETE FROM messages_fts`, `DELETE FROM messages_ranks`,
		`UPDATE cursors SET value = 0 WHERE name IN ('messages_fts', 'messages_ranks', 'run_totals')`,
		`DELETE FROM run_totals`, `DELETE FROM run_people`, `DELETE FROM run_durations`,
	} {
		if table == "messages_fts_data" {
			break
		}
		if err := execute(s, statement); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(s)
	}
	s.DB().StopChores("the sums of runs", wordindex.ChoreName, wordindex.RanksChoreName)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dbdamage.Destroy(t, i.path, choose(dbdamage.Leaves(t, i.path, table)))
	i.Store, _ = conversation.Open(t.Context(), conversation.Config{Path: i.path, Log: slog.New(slog.NewTextHandler(i.log, nil))})
	if i.Store == nil {
		t.Fatal("the database does not open")
	}
	t.Cleanup(func() { i.Close() })
	return i
}

// pageOf chooses a page that holds only messages of the victim.
func pageOf(t *testing.T) func(leaves []dbdamage.Page) dbdamage.Page {
	return func(leaves []dbdamage.Page) dbdamage.Page {
		only := slices.DeleteFunc(leaves, func(p dbdamage.Page) bool {
			return !p.Has(wordOf(victim)) || p.Has(wordOf(before)) || p.Has(wordOf(behind))
		})
		if len(only) < 3 {
			t.Fatalf("%d pages are the victim's alone", len(only))
		}
		return only[len(only)/2]
	}
}

func middle(leaves []dbdamage.Page) dbdamage.Page { return leaves[len(leaves)/2] }

// expectTold checks that a damaged part is reported, once in the log.
func (i *damagedDatabase) expectTold(part string) {
	i.t.Helper()
	if !slices.ContainsFunc(i.DB().Damages(), func(told string) bool { return strings.Contains(told, part) }) {
		i.t.Errorf("the damaged parts are %q, without %q", i.DB().Damages(), part)
	}
	for _, told := range i.DB().Damages() {
		if n := strings.Count(i.log.String(), fmt.Sprintf("part=%q", told)); n != 1 {
			i.t.Errorf("the log tells %d times of %q:\n%s", n, told, i.log)
		}
	}
}

// expectAnswer stores a question in a session, and its answer.
func (i *damagedDatabase) expectAnswer(key conversation.Key, id int) {
	i.t.Helper()
	storetest.Accept(i.t, i.Store, storetest.Say(key, id, "hello"))
	turn := storetest.Begin(i.t, i.Store, key, 100)
	if turn.Damaged || len(turn.Waiting) != 1 {
		i.t.Errorf("%s: damaged: %v, %d messages wait", key, turn.Damaged, len(turn.Waiting))
	}
	storetest.Commit(i.t, i.Store, storetest.Answered(key, turn, "hello"))
}

// expectNew begins a new conversation in the victim's session, and checks that it works.
func (i *damagedDatabase) expectNew() {
	i.t.Helper()
	storetest.Accept(i.t, i.Store, storetest.Say(victim, 800, "/new"))
	turn := storetest.Begin(i.t, i.Store, victim, 100)
	storetest.Commit(i.t, i.Store, conversation.Run{
		Key: victim, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation, Effect: conversation.Effect{Archive: true},
		Replies: []conversation.Delivery{{Key: victim, Address: "here", Text: "A new conversation begins."}},
	})
	i.expectAnswer(victim, 801)
	i.expectAnswer(victim, 802)
	due, err := i.Deliveries(i.t.Context(), conversation.DeliveryQuery{Key: victim, Ready: true, Limit: 1000})
	if err != nil || len(due) < 3 {
		i.t.Errorf("%d replies are to be sent, %v", len(due), err)
	}
}

// doChores does all chores that can be done.
func (i *damagedDatabase) doChores() {
	for range 2000 { // on a busy machine a transaction has time for one small step
		if !i.DB().RunChores() {
			break
		}
	}
}

// expectChores does all chores that can be done, and checks the other sessions.
func (i *damagedDatabase) expectChores(runs int64) {
	i.t.Helper()
	i.doChores()
	for _, key := range []conversation.Key{before, behind} {
		hits, err := search.New(i.Store).Find(i.t.Context(), search.Query{Key: key, Words: wordOf(key), Limit: 200})
		if err != nil || len(hits) < 2*damagedTurns {
			i.t.Errorf("%d messages of %s are found, %v", len(hits), key, err)
		}
	}
	var counted int64
	if err := i.DB().QueryRowContext(i.t.Context(), `SELECT sum(runs) FROM run_totals`).Scan(&counted); err != nil || counted < runs {
		i.t.Errorf("the sums hold %d runs, want at least %d, %v", counted, runs, err)
	}
}

func TestDamagedMessagesAffectNoOtherSession(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "messages", pageOf(t), nil)
	storetest.Accept(t, i.Store, storetest.Say(victim, 700, "hello"))
	turn := storetest.Begin(t, i.Store, victim, 1000)
	if !turn.Damaged || len(turn.Waiting) != 1 || len(turn.History) != 0 || turn.Conversation.Messages == 0 {
		t.Errorf("damaged: %v, %d messages wait, %d in the history", turn.Damaged, len(turn.Waiting), len(turn.History))
	}
	i.expectTold("messages of " + string(victim))
	i.expectAnswer(before, 700)
	i.expectAnswer(behind, 700)
	storetest.Commit(t, i.Store, conversation.Run{Key: victim, Kind: conversation.KindAgent, Status: conversation.StatusFailed, Took: turn.Waiting, Conversation: turn.Conversation.WithoutRecord(),
		Replies: []conversation.Delivery{{Key: victim, Address: "here", Text: "damaged"}}})
	i.expectNew()
	i.expectChores(3 * damagedTurns)
}

func TestDamagedIndexOfMessagesAffectsNoOtherSession(t *testing.T) {
	t.Parallel()
	// The index is in the order of the conversations, so that its first page is of
	// the first session alone.
	i := newDamagedDatabase(t, "sqlite_autoindex_messages_1", func(leaves []dbdamage.Page) dbdamage.Page {
		if len(leaves) < 2 {
			t.Skip("the index has one page")
		}
		return leaves[0]
	}, nil)
	storetest.Accept(t, i.Store, storetest.Say(before, 700, "hello"))
	if turn := storetest.Begin(t, i.Store, before, 1_000_000); !turn.Damaged {
		t.Error("a session whose messages can't be found is not reported as damaged")
	}
	i.expectAnswer(behind, 700)
}

// After a commit has failed on damage, the next snapshot says that nothing can be added to the
// conversation.
func TestConversationThatRejectsMessagesIsReportedAsDamaged(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "messages", pageOf(t), nil)
	c, err := i.Active(t.Context(), behind)
	if err != nil {
		t.Fatal(err)
	}
	i.CloseConversation(c.ID)
	storetest.Accept(t, i.Store, storetest.Say(behind, 700, "hello"))
	if turn := storetest.Begin(t, i.Store, behind, 1000); turn.Conversation.ID != c.ID || !turn.Damaged {
		t.Errorf("damaged: %v, conversation %s", turn.Damaged, turn.Conversation.ID)
	}
}

func TestDamagedRepliesAreSkipped(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "outbox", func(leaves []dbdamage.Page) dbdamage.Page { return pageOf(t)(leaves) }, nil)
	due, err := i.Deliveries(t.Context(), conversation.DeliveryQuery{Key: victim, Ready: true, Limit: 1000})
	if err != nil || len(due) == 0 || len(due) >= damagedTurns {
		t.Errorf("%d of %d replies are to be sent, %v", len(due), damagedTurns, err)
	}
	i.expectTold("a reply to " + string(victim))
	keys, err := i.Due(t.Context(), conversation.Scope{Channel: "telegram"})
	if err != nil || !slices.Equal(keys, []conversation.Key{before, victim, behind}) {
		t.Errorf("replies are due in %v, %v", keys, err)
	}
	if err := i.Mark(t.Context(), due[0], conversation.MarkSent, ""); err != nil {
		t.Error(err)
	}
	i.expectAnswer(victim, 700)
	i.expectChores(2 * damagedTurns)
	i.expectTold("the sums of runs")
}

func TestDamagedInboundIsSkipped(t *testing.T) {
	t.Parallel()
	const waiting = 60
	i := newDamagedDatabase(t, "inbox", func(leaves []dbdamage.Page) dbdamage.Page {
		page := pageOf(t)(leaves)
		return page
	}, func(s *conversation.Store) {
		for n := range waiting {
			for _, key := range []conversation.Key{before, victim, behind}[1:] {
				storetest.Accept(t, s, storetest.Say(key, 500+n, strings.Repeat(wordOf(key)+" ", 60)))
			}
			_ = n
		}
		for n := range waiting {
			storetest.Accept(t, s, storetest.Say(victim, 600+n, strings.Repeat(wordOf(victim)+" ", 60)))
		}
	})
	turn := storetest.Begin(t, i.Store, victim, 1000)
	if n := len(turn.Waiting); n == 0 || n >= 2*waiting {
		t.Errorf("%d of %d messages wait", n, 2*waiting)
	}
	i.expectTold("a message of " + string(victim) + " that waits")
	list, err := i.Waiting(t.Context(), conversation.Scope{Channel: "telegram"})
	if err != nil || !slices.Equal(storetest.KeysOf(list), []conversation.Key{victim, behind}) {
		t.Errorf("messages wait in %v, %v", list, err)
	}
	clean(t, retention.New(i.Store), retention.Rules{})
}

func TestDamagedSearchIndexStopsNoOtherChore(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "messages_fts_data", middle, func(s *conversation.Store) {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	for n := range 30 {
		i.expectAnswer(behind, 700+n)
	}
	i.doChores()
	var counted int64
	if err := i.DB().QueryRowContext(i.t.Context(), `SELECT sum(runs) FROM run_totals`).Scan(&counted); err != nil || counted != 3*damagedTurns+30 {
		t.Errorf("the sums hold %d runs, %v", counted, err)
	}
	damaged := 0 // whose words stand on the damaged page differs with how the index has grown
	for _, key := range []conversation.Key{before, victim, behind} {
		if _, err := search.New(i.Store).Find(t.Context(), search.Query{Key: key, Words: wordOf(key), Limit: 10}); conversation.IsDamaged(err) {
			damaged++
		}
	}
	if damaged == 0 {
		t.Error("no search says that its index is damaged")
	}
	i.expectTold("the search index")
}

func TestDamagedSumsAreLeftAsTheyAre(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "run_people", middle, func(s *conversation.Store) {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	before, err := i.Cursor(t.Context(), "run_totals")
	if err != nil {
		t.Fatal(err)
	}
	i.expectAnswer(behind, 700)
	i.doChores()
	if after, err := i.Cursor(t.Context(), "run_totals"); err != nil || after != before {
		t.Errorf("the sums went on from %s to %s without the runs between, %v", before, after, err)
	}
	hits, err := search.New(i.Store).Find(t.Context(), search.Query{Key: behind, Words: "hello", Limit: 5})
	if err != nil || len(hits) == 0 {
		t.Errorf("the search index was not brought up to date: %d hits, %v", len(hits), err)
	}
	i.expectTold("the sums of runs")
}

func TestSearchLeavesOutDamagedMessages(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "messages", pageOf(t), func(s *conversation.Store) {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	for _, key := range []conversation.Key{victim, ""} {
		hits, err := search.New(i.Store).Find(t.Context(), search.Query{Key: key, Words: wordOf(victim), Limit: 200})
		if err != nil || len(hits) == 0 || len(hits) >= 2*damagedTurns {
			t.Errorf("in %q, %d of %d messages are found, %v", key, len(hits), 2*damagedTurns, err)
		}
	}
	i.expectTold("the table")
}

// /new works even if the row of the active conversation, which it changes, is damaged.
func TestNewConversationWhereTheRecordOfTheOldOneIsDamaged(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "conversations", func(leaves []dbdamage.Page) dbdamage.Page {
		if len(leaves) < 3 {
			t.Fatalf("the conversations have %d pages", len(leaves))
		}
		return leaves[0]
	}, func(s *conversation.Store) {
		for n := range 200 {
			storetest.Accept(t, s, storetest.Say(conversation.Key(fmt.Sprint("cli:", n)), 1, "hello"))
			storetest.Commit(t, s, storetest.Answered(conversation.Key(fmt.Sprint("cli:", n)), storetest.Begin(t, s, conversation.Key(fmt.Sprint("cli:", n)), 100), "hello"))
		}
	})
	storetest.Accept(t, i.Store, storetest.Say(victim, 700, "hello"))
	turn := storetest.Begin(t, i.Store, victim, 1000)
	if !turn.Damaged || turn.Conversation.Messages != 0 {
		t.Errorf("damaged: %v, %+v", turn.Damaged, turn.Conversation)
	}
	i.expectTold("the record of the conversation that goes on in " + string(victim))
	storetest.Commit(t, i.Store, conversation.Run{Key: victim, Kind: conversation.KindAgent, Status: conversation.StatusFailed, Took: turn.Waiting, Conversation: turn.Conversation.WithoutRecord(),
		Replies: []conversation.Delivery{{Key: victim, Address: "here", Text: "damaged"}}})
	i.expectNew()
	i.expectAnswer("cli:150", 700)
	if fresh, err := i.Reset(t.Context(), before, false); err != nil || fresh.Messages != 0 {
		t.Errorf("reset gives %+v, %v", fresh, err)
	}
	i.expectAnswer(before, 700)
}

// A message whose session can't be read does not keep messages of other sessions from being stored.
func TestDamagedSessionBlocksNoMessagesOfOthers(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "sessions", func(leaves []dbdamage.Page) dbdamage.Page {
		if len(leaves) < 3 {
			t.Fatalf("the sessions have %d pages", len(leaves))
		}
		return leaves[0]
	}, func(s *conversation.Store) {
		for n := range 400 {
			storetest.Accept(t, s, storetest.Say(conversation.Key(fmt.Sprint("cli:somebody-with-a-long-name-", n)), 1, "hello"))
		}
	})
	const other = conversation.Key("cli:somebody-with-a-long-name-399")
	stored, err := i.Accept(t.Context(), []conversation.Cursor{{Name: "telegram:1", Value: "18"}}, storetest.Say(victim, 700, "hello"), storetest.Say(other, 2, "hello"))
	if err != nil || len(stored) != 2 {
		t.Fatalf("%d messages are stored, %v", len(stored), err)
	}
	if apart := stored[0]; apart.Key == victim || apart.Key.Channel() != "telegram" || apart.Address != storetest.Say(victim, 700, "").Address {
		t.Errorf("the message is stored as %+v", apart)
	}
	if again, err := i.Accept(t.Context(), nil, storetest.Say(victim, 700, "hello")); err != nil || len(again) != 0 {
		t.Errorf("delivered again, the message is stored again: %d, %v", len(again), err)
	}
	if turn := storetest.Begin(t, i.Store, stored[0].Key, 1000); len(turn.Waiting) != 1 || turn.Damaged {
		t.Errorf("the message does not wait: %+v", turn)
	}
	i.expectTold("the place for messages of " + string(victim))
}

func TestDamagedRowsOfADeletedConversationBlockNoOtherSweep(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "messages", pageOf(t), nil)
	for _, key := range []conversation.Key{victim, behind} {
		storetest.Accept(t, i.Store, storetest.Say(key, 900, "/clear yes"))
		turn := storetest.Begin(t, i.Store, key, 100)
		storetest.Commit(t, i.Store, conversation.Run{Key: key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation, Effect: conversation.Effect{Delete: true}})
	}
	i.doChores()
	var left int
	err := i.DB().QueryRowContext(i.t.Context(), `SELECT count(*) FROM conversations WHERE deleted = 1`).Scan(&left)
	if err != nil || left != 1 {
		t.Errorf("%d deleted conversations are left, %v", left, err)
	}
	i.expectAnswer(behind, 901)
}

// A stretch of ids on damaged pages is skipped, however long it is.
func TestRowsAfterADamagedStretchAreFound(t *testing.T) {
	t.Parallel()
	i := newDamagedDatabase(t, "messages", middle, nil)
	var all []int64
	for after := int64(0); ; {
		ids, err := db.ReadableIDs(t.Context(), i.DB(), "messages", after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			break
		}
		all = append(all, ids...)
		after = ids[len(ids)-1]
	}
	gaps := 0
	for n := range all[1:] {
		if all[n+1] != all[n]+1 {
			gaps++
		}
	}
	if last := all[len(all)-1]; gaps != 1 || all[0] != 1 || last != 6*damagedTurns {
		t.Errorf("%d ids from %d to %d, with %d gaps", len(all), all[0], last, gaps)
	}
}
