package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/state"
)

// Chat is a session to test with.
const Chat = conversation.Key("telegram:chat:42")

// Clock is a time that a test sets.
type Clock struct{ time.Time }

// Now returns the time.
func (c *Clock) Now() time.Time { return c.Time }

// Pass moves the time on.
func (c *Clock) Pass(d time.Duration) { c.Time = c.Add(d) }

// NewAged opens an empty database whose time is that of the clock, at first the
// beginning of 2026.
func NewAged(t testing.TB) (*conversation.Store, *Clock) {
	t.Helper()
	clock := &Clock{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	return New(t, conversation.Config{Now: clock.Now}), clock
}

// Say returns a message to a session.
func Say(key conversation.Key, id int, text string) conversation.Inbound {
	return conversation.Inbound{
		Key: key, SourceID: fmt.Sprintf("%s/%d", key, id), Address: "to " + string(key), Text: text, At: time.UnixMilli(int64(id)),
	}
}

// ToBot returns a message that was written to one of several bots, in a private chat. Bots number the messages of such chats
// by themselves, so the same id may be another message for another bot.
func ToBot(bot conversation.Account, id int, text string) conversation.Inbound {
	return conversation.Inbound{
		Key: Chat, Account: bot.ID, SourceID: fmt.Sprint("42:", id), Address: "to 42", Sender: conversation.Sender{ID: "42"},
		Text: text, At: time.UnixMilli(1_700_000_000_000),
	}
}

// Ask returns a message to a session whose reply is kept.
func Ask(key conversation.Key, id int, text string) conversation.Inbound {
	in := Say(key, id, text)
	in.Keep = true
	return in
}

// Replied returns a run that answers the first waiting message only.
func Replied(turn conversation.Snapshot, kind conversation.Kind, status conversation.Status, text string, messages ...conversation.Message) conversation.Run {
	return conversation.Run{Key: turn.Waiting[0].Key, Kind: kind, Status: status, Took: turn.Waiting[:1], Conversation: turn.Conversation,
		Messages: messages, Replies: []conversation.Delivery{{Text: text, Keep: turn.Waiting[0].Keep}}}
}

// SayNow returns a message to a session that is written now.
func SayNow(clock *Clock, key conversation.Key, id int, text string) conversation.Inbound {
	in := Say(key, id, text)
	in.At = clock.Time
	return in
}

// TurnNow stores a message that is written now, and its answer. A conversation that
// was not used for 30 days is archived first.
func TurnNow(t testing.TB, s *conversation.Store, clock *Clock, key conversation.Key, id int, text string) {
	t.Helper()
	Accept(t, s, SayNow(clock, key, id, text))
	snapshot := Begin(t, s, key, 1000).Expire(state.Limits{Idle: 30 * 24 * time.Hour}, s.Now())
	Commit(t, s, Answered(key, snapshot, "answer to "+text))
}

// Accept stores messages.
func Accept(t testing.TB, s *conversation.Store, batch ...conversation.Inbound) {
	t.Helper()
	if _, err := s.Accept(t.Context(), nil, batch...); err != nil {
		t.Fatal(err)
	}
}

// AcceptTexts stores messages and returns the texts of those that were not stored before.
func AcceptTexts(t testing.TB, s *conversation.Store, batch ...conversation.Inbound) (texts []string) {
	t.Helper()
	list, err := s.Accept(t.Context(), nil, batch...)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range list {
		texts = append(texts, in.Text)
	}
	return texts
}

// Begin returns what a run of a session begins with.
func Begin(t testing.TB, s *conversation.Store, key conversation.Key, budget int) conversation.Snapshot {
	t.Helper()
	turn, err := s.Begin(t.Context(), key, budget)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// Commit commits a run.
func Commit(t testing.TB, s *conversation.Store, run conversation.Run) conversation.Committed {
	t.Helper()
	done, err := s.Commit(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Answered returns a run that answers all waiting messages, with 10 tokens for each.
func Answered(key conversation.Key, turn conversation.Snapshot, reply string) conversation.Run {
	run := conversation.Run{Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Conversation: turn.Conversation}
	for _, in := range turn.Waiting {
		run.Took = append(run.Took, in)
		run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleUser, Content: in.Text, SourceID: in.SourceID, Tokens: 10})
	}
	run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleAssistant, Content: reply, Tokens: 10})
	run.Replies = []conversation.Delivery{{Key: key, Address: turn.Waiting[0].Address, Text: reply}}
	return run
}

// Turn stores a message and its answer.
func Turn(t testing.TB, s *conversation.Store, key conversation.Key, id int) {
	t.Helper()
	Accept(t, s, Say(key, id, fmt.Sprintf("question %d", id)))
	Commit(t, s, Answered(key, Begin(t, s, key, 1000), fmt.Sprintf("answer %d", id)))
}

// CommitTurn stores a message and its answer, with 5 tokens for each, and returns what Commit has stored. Unless it is nil,
// change may alter the run before.
func CommitTurn(t testing.TB, s *conversation.Store, key conversation.Key, text string, change func(*conversation.Run)) conversation.Committed {
	t.Helper()
	now := time.Now()
	Accept(t, s, conversation.Inbound{Key: key, SourceID: fmt.Sprint(key, now.UnixNano()), Address: "1", Text: text, At: now})
	snapshot := Begin(t, s, key, 1000)
	run := conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: snapshot.Waiting, Conversation: snapshot.Conversation,
		Title: text, Messages: []conversation.Message{{Role: conversation.RoleUser, Content: text, Tokens: 5}, {Role: conversation.RoleAssistant, Content: "re " + text, Tokens: 5}},
	}
	if change != nil {
		change(&run)
	}
	return Commit(t, s, run)
}

// Tell stores messages as one run of a session, the first as its question.
func Tell(t testing.TB, s *conversation.Store, key conversation.Key, messages ...conversation.Message) {
	t.Helper()
	var count int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM inbox`).Scan(&count); err != nil {
		t.Fatal(err)
	}
	Accept(t, s, Say(key, 1000+count, messages[0].Content))
	run := Answered(key, Begin(t, s, key, 1000), "")
	run.Messages = messages
	Commit(t, s, run)
}

// User returns a user's message.
func User(text string) conversation.Message {
	return conversation.Message{Role: conversation.RoleUser, Content: text}
}

// Assistant returns an answer.
func Assistant(text string) conversation.Message {
	return conversation.Message{Role: conversation.RoleAssistant, Content: text}
}

// Texts returns the texts of messages.
func Texts(messages []conversation.Message) []string {
	var list []string
	for _, m := range messages {
		list = append(list, m.Content)
	}
	return list
}

// Chores does the store's background work, and returns the number of steps.
func Chores(t testing.TB, s *conversation.Store) (steps int) {
	t.Helper()
	for done := false; !done; steps++ {
		err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) (err error) {
			done, err = s.DB().StepChore(ctx, tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return steps
}

// Exec executes a statement.
func Exec(t testing.TB, s *conversation.Store, statement string, args ...any) {
	t.Helper()
	err := s.DB().Read(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, statement, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Count returns the number that a query gives.
func Count(t testing.TB, s *conversation.Store, query string, args ...any) (n int64) {
	t.Helper()
	if err := s.DB().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// KeysOf returns the keys of sessions in which messages wait.
func KeysOf(list []conversation.Waiting) (keys []conversation.Key) {
	for _, w := range list {
		keys = append(keys, w.Key)
	}
	return keys
}
