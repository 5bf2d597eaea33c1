package retention

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
)

func mustClean(t testing.TB, s store, rules Rules) (Cleaned, []string) {
	t.Helper()
	var gone []string
	cleaned, err := s.Clean(t.Context(), rules, func(o Outdated) { gone = append(gone, string(o.Key)+" "+o.Title) })
	if err != nil {
		t.Fatal(err)
	}
	return cleaned, gone
}

func sendAll(t testing.TB, s store, key conversation.Key) {
	t.Helper()
	due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: key, Ready: true, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range due {
		if err := s.Mark(t.Context(), d, conversation.MarkSent, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A message that the platform delivers again days later is not answered again.
func TestRedeliveredMessageIsRecognizedForAWeek(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		redelivery, age time.Duration
		known           bool
	}{
		"yesterday's":                                       {age: day, known: true},
		"the day before the week is over":                   {age: 6 * day, known: true},
		"long ago, from a platform that looks a month back": {redelivery: 30 * day, age: 30 * day, known: true},
		"too long ago for any platform":                     {age: 8 * day},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := mustOpenAged(t)
			storetest.TurnNow(t, s.Store, clock, chat, 1, "old")
			clock.Pass(tt.age)
			storetest.TurnNow(t, s.Store, clock, chat, 2, "new")
			mustClean(t, s, Rules{Redelivery: tt.redelivery})
			storetest.Accept(t, s.Store, storetest.Say(chat, 1, "old"))
			if waiting := storetest.Begin(t, s.Store, chat, 1000).Waiting; len(waiting) == 0 != tt.known {
				t.Errorf("waiting: %+v", waiting)
			}
		})
	}
}

// Waiting messages and due replies are never deleted, however long they wait.
func TestWaitingMessagesAndDueRepliesAreNeverDeleted(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	storetest.TurnNow(t, s.Store, clock, chat, 1, "answered, and the answer never sent")
	for i := range pruneBatch + 10 { // more than is looked at in one step
		storetest.Accept(t, s.Store, storetest.SayNow(clock, "telegram:chat:7", 100+i, "waits"))
	}
	storetest.TurnNow(t, s.Store, clock, "telegram:chat:8", 1, "done")
	sendAll(t, s, "telegram:chat:8")
	clock.Pass(100 * day)
	storetest.TurnNow(t, s.Store, clock, "telegram:chat:9", 1, "done now")
	sendAll(t, s, "telegram:chat:9")

	cleaned, _ := mustClean(t, s, Rules{})
	if want := (Cleaned{Inbound: 2, Deliveries: 1}); cleaned != want {
		t.Errorf("%+v, want %+v", cleaned, want)
	}
	if n := count(t, s, `inbox WHERE run_id IS NULL`); n != pruneBatch+10 {
		t.Errorf("%d messages wait", n)
	}
	if due, _ := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: chat, Ready: true, Limit: 9}); len(due) != 1 || due[0].Text == "" {
		t.Errorf("due: %+v", due)
	}
	if cleaned, _ := mustClean(t, s, Rules{}); cleaned != (Cleaned{}) {
		t.Errorf("once more: %+v", cleaned)
	}
}

// Ids of messages, runs and replies are not used again, also when all rows with them were deleted.
func TestIDsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	for i := range 3 {
		storetest.TurnNow(t, s.Store, clock, chat, i, "done")
	}
	sendAll(t, s, chat)
	clock.Pass(100 * day)
	mustClean(t, s, Rules{})
	if in, out := count(t, s, "inbox"), count(t, s, "outbox"); in != 1 || out != 1 {
		t.Errorf("%d inbound and %d deliveries are left, want the newest of each", in, out)
	}
	stored, err := s.Accept(t.Context(), nil, storetest.SayNow(clock, chat, 9, "new"))
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Commit(t.Context(), storetest.Answered(chat, storetest.Begin(t, s.Store, chat, 1000), "answer"))
	if err != nil {
		t.Fatal(err)
	}
	if stored[0].ID != 4 || done.Replies[0].ID != 4 {
		t.Errorf("the fourth message got the id %d, and its reply %d", stored[0].ID, done.Replies[0].ID)
	}
}

// Withdrawn messages, replies that a platform has refused for good and expired codes are
// deleted after their time, like settled messages.
func TestWithdrawnMessagesAndFailedRepliesAreDeleted(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	storetest.Accept(t, s.Store, storetest.SayNow(clock, chat, 1, "taken back"))
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: chat.Channel()}, storetest.Say(chat, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	storetest.TurnNow(t, s.Store, clock, chat, 2, "refused")
	due, _ := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: chat, Ready: true, Limit: 1})
	if err := s.Mark(t.Context(), due[0], conversation.MarkFailed, "the chat is gone"); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"let in", "waits"} {
		p, _, err := pairing.New(s.Store).Ask(t.Context(), conversation.Account{Channel: "telegram"}, user, user)
		if err == nil && user == "let in" {
			_, err = pairing.New(s.Store).Approve(t.Context(), p.Code)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	clock.Pass(8 * day)
	storetest.TurnNow(t, s.Store, clock, chat, 3, "the newest")
	cleaned, _ := mustClean(t, s, Rules{})
	if want := (Cleaned{Inbound: 2, Deliveries: 1, Pairings: 1}); cleaned != want {
		t.Errorf("%+v, want %+v", cleaned, want)
	}
	if in, err := pairing.New(s.Store).Has(t.Context(), conversation.Account{Channel: "telegram"}, "let in"); !in || err != nil {
		t.Errorf("an admitted person has lost access: %v", err)
	}
}

// aged returns a store in which some conversations ended more than a year ago.
func aged(t testing.TB) (store, *storetest.Clock) {
	t.Helper()
	s, clock := mustOpenAged(t)
	for i, text := range []string{"first", "second", "third"} { // each archives the one before
		storetest.TurnNow(t, s.Store, clock, chat, i, text)
		clock.Pass(200 * day)
	}
	storetest.TurnNow(t, s.Store, clock, "telegram:chat:7", 1, "recent")
	for _, key := range []conversation.Key{chat, "telegram:chat:7"} {
		sendAll(t, s, key)
	}
	return s, clock
}

// Retention deletes everything that ended more than a year ago, and nothing younger.
func TestRetentionDeletesConversationsThatAreOldEnough(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rules Rules
		kept  int64
	}{
		"by default nothing goes":                                     {Rules{Expiration: month}, 4},
		"archived for more than a year":                               {Rules{Expiration: month, Retention: 365 * day}, 2},
		"also one at rest that the next message would not go on with": {Rules{Expiration: month, Retention: 100 * day}, 1},
		"but not where conversations never expire":                    {Rules{Retention: 100 * day}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := aged(t)
			would, err := s.Retention.Preview(t.Context(), tt.rules, func(Outdated) {})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SetInstructions(t.Context(), chat, "Answer in rhymes."); err != nil {
				t.Fatal(err)
			}
			cleaned, _ := mustClean(t, s, tt.rules)
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c, err := s.Active(t.Context(), chat); err != nil || len(c.State.Instructions) != 1 {
				t.Errorf("the session is left with the instructions %q, %v", c.State.Instructions, err)
			}
			if got := count(t, s, "conversations"); got != tt.kept {
				t.Errorf("%d conversations are kept, want %d", got, tt.kept)
			}
			if got := count(t, s, "messages"); got != 2*tt.kept {
				t.Errorf("%d messages are kept, want %d", got, 2*tt.kept)
			}
			if cleaned.Conversations != 4-tt.kept || cleaned.Messages != 2*cleaned.Conversations || (cleaned.Bytes > 0) != (cleaned.Conversations > 0) {
				t.Errorf("it says %+v", cleaned)
			}
			if diff := cmp.Diff(would, cleaned); diff != "" {
				t.Errorf("other than what was said before: %s", diff)
			}
		})
	}
}

// A version of an edited message that is not shown is deleted with its
// conversation, and a session whose conversations are all deleted leaves the lists.
func TestRetentionDeletesVersionsThatAreNotShown(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	storetest.TurnNow(t, s.Store, clock, chat, 1, "first")
	storetest.Accept(t, s.Store, storetest.SayNow(clock, chat, 2, "edited"))
	edited := storetest.Answered(chat, storetest.Begin(t, s.Store, chat, 1000), "answered anew")
	edited.Effect.Undo = 1
	storetest.Commit(t, s.Store, edited)
	sendAll(t, s, chat)
	if err := s.SetMetadata(t.Context(), chat, "", `{"task": "old"}`); err != nil {
		t.Fatal(err)
	}
	clock.Pass(400 * day)
	cleaned, _ := mustClean(t, s, Rules{Expiration: month, Retention: 365 * day})
	if list, _, err := catalog.New(s.Store).Sessions(t.Context(), catalog.SessionQuery{}); err != nil || len(list) != 0 {
		t.Errorf("the session is still listed: %+v, %v", list, err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cleaned.Messages != 4 || count(t, s, "messages")+count(t, s, "branches")+count(t, s, "branch_states") != 0 {
		t.Errorf("it says %+v, and %d messages are left", cleaned, count(t, s, "messages"))
	}
}

// A dry run changes nothing.
func TestADryRunDeletesNothing(t *testing.T) {
	t.Parallel()
	s, _ := aged(t)
	tables := []string{"conversations WHERE deleted = 0", "messages", "inbox", "outbox"}
	before := make([]int64, len(tables))
	for i, table := range tables {
		before[i] = count(t, s, table)
	}
	if _, err := s.Retention.Preview(t.Context(), Rules{Expiration: month, Retention: day}, func(Outdated) {}); err != nil {
		t.Fatal(err)
	}
	for i, table := range tables {
		if n := count(t, s, table); n != before[i] {
			t.Errorf("%s: %d rows, before it %d", table, n, before[i])
		}
	}
}

// A conversation that is resumed between the search for old ones and the deletion is kept.
func TestResumedConversationIsNotDeleted(t *testing.T) {
	t.Parallel()
	s, _ := aged(t)
	list, _, _ := catalog.New(s.Store).Conversations(t.Context(), catalog.ConversationQuery{Key: chat, Limit: 9})
	oldest := list[len(list)-1]
	c := &cleaner{Retention: s.Retention, deletes: true}
	c.judge(Rules{Expiration: month, Retention: day}, s.now())
	batch, err := c.outdatedAfter(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(t.Context(), chat, oldest.ID); err != nil {
		t.Fatal(err)
	}
	hidden, err := c.hide(t.Context(), batch)
	if err != nil || len(hidden) != len(batch)-1 || hidden[0].ID == oldest.ID {
		t.Errorf("%d of %d are hidden, %v", len(hidden), len(batch), err)
	}
}

// fillDone adds settled rows, and archived conversations with two messages each, from 1970.
func fillDone(t testing.TB, s store, rows, conversations int) {
	t.Helper()
	const upTo = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `
	for _, fill := range []struct {
		sql string
		n   int
	}{
		{`INSERT INTO inbox (session_id, channel, source_id, address, text, sent_at, run_id)
			SELECT 1, 'telegram', 'old/' || i, '', '', 0, 0 FROM n`, rows},
		{`INSERT INTO outbox (session_id, run_id, address, text, state, created_at) SELECT 1, i, '', '', 'sent', 0 FROM n`, rows},
		{`INSERT INTO conversations (uuid, session_id, title, active, messages, created_at, updated_at)
			SELECT 'old/' || i, 1, 'old', 0, 2, 0, 0 FROM n`, conversations},
		{`INSERT INTO messages (conversation_id, seq, run_id, role, content, tokens, created_at)
			SELECT c.id, seq, 1, 'user', 'word', 1, 0 FROM conversations c, (SELECT 1 AS seq UNION SELECT 2) AS two WHERE c.uuid LIKE 'old/%' AND ? > 0`, conversations},
	} {
		query := fill.sql
		if strings.Contains(query, "FROM n") {
			query = upTo + query
		}
		err := s.db.Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
			_, err := tx.ExecContext(ctx, query, fill.n)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A message that comes while 10,000 conversations are deleted is stored and
// answered before the deletion has ended.
func TestADeletionOfTenThousandConversationsDoesNotHoldUpAMessage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it makes ten thousand conversations")
	}
	const conversations = 10_000
	s := mustOpen(t)
	storetest.Turn(t, s.Store, "telegram:chat:1", 1)
	fillDone(t, s, 0, conversations)
	storetest.Chores(t, s.Store)
	told, answered := 0, 0
	cleaned, err := s.Clean(t.Context(), Rules{Retention: month}, func(Outdated) {
		if told++; told%1000 == 0 {
			answered++
			storetest.Turn(t, s.Store, chat, answered)
		}
	})
	if err != nil || cleaned.Conversations != conversations {
		t.Fatalf("%+v, %v", cleaned, err)
	}
	for done := false; !done; {
		var gone int64
		gone, done = step(t, s, `SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM conversations)`)
		if gone > 200 {
			t.Fatalf("one step deleted %d rows", gone)
		}
		if answered++; answered%20 == 0 {
			storetest.Turn(t, s.Store, chat, answered)
		}
	}
	if n := count(t, s, `conversations WHERE updated_at = 0`); n != 0 {
		t.Errorf("%d conversations are left", n)
	}
	page, _, err := catalog.New(s.Store).Conversations(t.Context(), catalog.ConversationQuery{Key: chat, Limit: 1})
	if err != nil || len(page) != 1 || page[0].Messages < 2*10 {
		t.Errorf("the chat that went on: %+v, %v", page, err)
	}
}

// However many rows can be deleted, a step deletes no more than a few hundred.
func TestManyRowsArePrunedInSmallSteps(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	s := mustOpen(t)
	storetest.Turn(t, s.Store, chat, 1)
	fillDone(t, s, rows, 0)
	storetest.Turn(t, s.Store, chat, 2)
	c := &cleaner{Retention: s.Retention, deletes: true}
	c.judge(Rules{}, s.now())
	for _, p := range []prunable{inboxRows, outboxRows} {
		steps, pruned, after := 0, int64(0), int64(0)
		for {
			before := count(t, s, p.table)
			found, err := c.prune(t.Context(), p, after)
			if err != nil {
				t.Fatal(err)
			}
			n := before - count(t, s, p.table)
			if n != found.old || n > pruneBatch {
				t.Fatalf("%s: one step deleted %d rows and says %d", p.table, n, found.old)
			}
			if found.rows == 0 {
				break
			}
			steps, pruned, after = steps+1, pruned+n, found.last
		}
		if pruned != rows || steps < rows/pruneBatch {
			t.Errorf("%s: %d rows went in %d steps", p.table, pruned, steps)
		}
	}
}

// The hourly search for old rows ends at the first young one, so that its cost does not grow with a week's
// rows.
func TestPruningStopsAtTheFirstYoungRow(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	for i := range 3 * pruneBatch {
		storetest.Accept(t, s.Store, storetest.SayNow(clock, chat, i, fmt.Sprint(i)))
	}
	for len(storetest.Begin(t, s.Store, chat, 10).Waiting) > 0 {
		storetest.Commit(t, s.Store, storetest.Answered(chat, storetest.Begin(t, s.Store, chat, 10), "answer"))
	}
	c := &cleaner{Retention: s.Retention, deletes: true}
	c.judge(Rules{}, s.now())
	found, err := c.prune(t.Context(), inboxRows, 0)
	if err != nil || found != (stretch{last: pruneBatch, rows: pruneBatch, done: pruneBatch}) {
		t.Fatalf("%+v, %v", found, err)
	}
	if !found.ends() {
		t.Error("the search reads on through rows that are too young")
	}
}

// BenchmarkPrune measures one step of a cleanup, the longest time that a message waits for it.
func BenchmarkPrune(b *testing.B) {
	s := mustOpen(b)
	storetest.Turn(b, s.Store, chat, 1)
	fillDone(b, s, 1_000_000, 0)
	storetest.Turn(b, s.Store, chat, 2)
	c := &cleaner{Retention: s.Retention, deletes: true}
	c.judge(Rules{}, s.now())
	var after int64
	for b.Loop() {
		found, err := c.prune(b.Context(), inboxRows, after)
		if err != nil {
			b.Fatal(err)
		}
		after = found.last
	}
}
