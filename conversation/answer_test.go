package conversation

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = Key("web:kitchen")

// ask is a message whose reply is kept.
func ask(key Key, id int, text string) Inbound {
	in := say(key, id, text)
	in.Keep = true
	return in
}

// replied ends a turn of which only the first message is taken.
func replied(turn Snapshot, kind Kind, status Status, text string, messages ...Message) Run {
	return Run{Key: turn.Waiting[0].Key, Kind: kind, Status: status, Took: turn.Waiting[:1], Conversation: turn.Conversation,
		Messages: messages, Replies: []Delivery{{Text: text, Keep: turn.Waiting[0].Keep}}}
}

// give is a command with its reply.
func give(t testing.TB, s *Store, key Key, id int, command, reply string) {
	t.Helper()
	mustAccept(t, s, ask(key, id, command))
	mustCommit(t, s, replied(mustBegin(t, s, key, 1000), KindCommand, StatusDone, reply))
}

// talk is a question on a page, with its answer.
func talk(t testing.TB, s *Store, key Key, id int, question, answer string) {
	t.Helper()
	mustAccept(t, s, ask(key, id, question))
	turn := mustBegin(t, s, key, 1000)
	run := replied(turn, KindAgent, StatusDone, answer,
		Message{Role: RoleUser, Content: question, SourceID: turn.Waiting[0].SourceID, Tokens: 10}, Message{Role: RoleAssistant, Content: answer, Tokens: 10})
	run.Model, run.Rounds, run.Prompt, run.Completion = "test-model", 1, 30, 12
	mustCommit(t, s, run)
}

func mustAnswer(t testing.TB, s *Store, in Inbound) Answer {
	t.Helper()
	a, err := s.Answer(t.Context(), in.Key.Channel(), in.SourceID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A program that lost the connection repeats its request, maybe after a restart
// of the gateway, and gets the answer that was given, once.
func TestARepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	in := ask(page, 1, "question")
	if _, err := s.Answer(t.Context(), "web", in.SourceID); !errors.Is(err, ErrNoAnswer) {
		t.Fatalf("before it was asked: %v", err)
	}
	mustAccept(t, s, in)
	if a := mustAnswer(t, s, in); a.State != StatusWaiting || a.Key != page || a.ID == 0 {
		t.Errorf("while it waits: %+v", a)
	}
	if waiting, err := s.Inbox(t.Context(), page, 10); err != nil || len(waiting) != 1 || waiting[0].Text != "question" || !waiting[0].Keep {
		t.Errorf("a page that is loaded now shows %+v, %v", waiting, err)
	}
	talk(t, s, page, 1, "question", "answer")
	s = mustOpenAt(t, s.Path())
	mustAccept(t, s, in)
	got := mustAnswer(t, s, in)
	c, _ := s.Active(t.Context(), page)
	hash, _ := in.Fingerprint()
	want := Answer{ID: 1, Key: page, State: StatusDone, Fingerprint: hash, RunID: 1, Kind: KindAgent, Conversation: c.ID, Through: 2,
		Text: "answer", Model: "test-model", Rounds: 1, Prompt: 30, Completion: 12, At: got.At}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if due, err := s.Due(t.Context(), Scope{Channel: "web"}); err != nil || len(due) != 0 {
		t.Errorf("it waits to be sent as well: %v, %v", due, err)
	}
	if list, _ := s.Notices(t.Context(), page, 0, 10); len(list) != 0 {
		t.Errorf("it would be shown twice: %+v", list)
	}
}

// The same key with another question must be told from a repeat, also when the
// words of the first one are gone.
func TestAnotherQuestionUnderTheSameKeyIsNoticed(t *testing.T) {
	t.Parallel()
	in := ask(page, 1, "question")
	in.Attachments = []Attachment{{Name: "a.png", Size: 3, Ref: "1"}}
	hash, err := in.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	again := in
	again.Attachments = []Attachment{{Name: "a.png", Size: 3, Ref: "2"}} // uploaded anew
	if got, _ := again.Fingerprint(); got != hash {
		t.Error("a repeat with its file uploaded anew counts as another question")
	}
	for name, change := range map[string]func(*Inbound){
		"text":    func(in *Inbound) { in.Text = "other" },
		"session": func(in *Inbound) { in.Key = "web:cellar" },
		"file":    func(in *Inbound) { in.Attachments = []Attachment{{Name: "b.png", Size: 3}} },
	} {
		other := in
		change(&other)
		if got, _ := other.Fingerprint(); got == hash {
			t.Errorf("another %s makes no difference", name)
		}
	}
	s := mustOpen(t)
	mustAccept(t, s, in)
	mustCommit(t, s, replied(mustBegin(t, s, page, 1000), KindAgent, StatusDone, "answer"))
	if a := mustAnswer(t, s, in); a.Fingerprint != hash {
		t.Errorf("the answer's fingerprint is %s", a.Fingerprint)
	}
}

// Messages that one run has answered together have the same answer; what was
// stopped, failed or taken back is told apart.
func TestEveryEndOfARequestIsTold(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, ask(page, 1, "one"), ask(page, 2, "two"))
	run := answered(page, mustBegin(t, s, page, 1000), "both")
	run.Replies[0].Keep = true
	mustCommit(t, s, run)
	for i, want := range []string{"one", "two"} {
		if a := mustAnswer(t, s, ask(page, i+1, want)); a.State != StatusDone || a.Text != "both" {
			t.Errorf("%s: %+v", want, a)
		}
	}
	for i, status := range []Status{StatusFailed, StatusStopped} {
		in := ask(page, 10+i, "more")
		mustAccept(t, s, in)
		mustCommit(t, s, replied(mustBegin(t, s, page, 1000), KindAgent, status, "no answer", Message{Role: RoleUser, Content: "more", SourceID: in.SourceID}))
		if a := mustAnswer(t, s, in); a.State != Status(status) || a.Text != "no answer" {
			t.Errorf("%s: %+v", status, a)
		}
	}
	mustAccept(t, s, ask(page, 20, "never mind"))
	if _, err := s.Withdraw(t.Context(), Account{Channel: "web"}, say(page, 20, "").SourceID); err != nil {
		t.Fatal(err)
	}
	if a := mustAnswer(t, s, ask(page, 20, "")); a.State != StatusWithdrawn {
		t.Errorf("taken back: %+v", a)
	}
	exchange(t, s, chat, 1) // of a platform
	if _, err := s.Answer(t.Context(), "telegram", say(chat, 1, "").SourceID); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a reply that was sent is kept as well: %v", err)
	}
}

// A page that is loaded anew shows what commands replied and which runs failed,
// each at its place in the talk, and after a lost connection only what is new.
func TestNoticesStandWhereTheyWereGiven(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	give(t, s, page, 1, "/help", "the commands")
	talk(t, s, page, 2, "question", "answer")
	give(t, s, page, 3, "/status", "all is well")
	mustAccept(t, s, ask(page, 4, "more"))
	turn := mustBegin(t, s, page, 1000)
	failed := replied(turn, KindAgent, StatusFailed, "Something went wrong (run 4)", Message{Role: RoleUser, Content: "more", SourceID: turn.Waiting[0].SourceID})
	failed.Replies[0].Actions = []Action{{Label: "Again", Command: "/retry"}}
	mustCommit(t, s, failed)
	give(t, s, "web:cellar", 1, "/help", "another session's")

	list, err := s.Notices(t.Context(), page, 0, 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	type shown struct {
		After             int64
		Asked, Text, Conv string
	}
	c, _ := s.Active(t.Context(), page)
	var got []shown
	for _, n := range list {
		got = append(got, shown{n.After, n.Asked, n.Text, n.Conversation})
	}
	want := []shown{{0, "/help", "the commands", ""}, {2, "/status", "all is well", c.ID}, {3, "", "Something went wrong (run 4)", c.ID}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(list[2].Actions) != 1 || list[2].Status != StatusFailed {
		t.Errorf("the failed run: %+v", list[2])
	}
	if rest, err := s.Notices(t.Context(), page, list[1].ID, 10); err != nil || len(rest) != 1 || rest[0].ID != list[2].ID {
		t.Errorf("those that follow: %+v, %v", rest, err)
	}
}

// When somebody deletes a conversation, no copy of its words may stay in what is
// kept for pages and programs: not in answers, commands or their replies.
func TestDeletingAConversationForgetsWhatIsKeptOfIt(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	talk(t, s, page, 1, "the xylophone", "a xylophone")
	give(t, s, page, 2, "/title xylophone", "It is called xylophone.")
	mustAccept(t, s, ask(page, 3, "/new"))
	turn := mustBegin(t, s, page, 1000)
	fresh := replied(turn, KindCommand, StatusDone, "The xylophone is kept.")
	fresh.Effect.Archive = true
	mustCommit(t, s, fresh)
	give(t, s, page, 4, "/search xylophone", "1. the xylophone") // in the next conversation
	talk(t, s, page, 5, "other", "other words")
	talk(t, s, "web:cellar", 1, "violin", "a violin")

	if n, err := s.Delete(t.Context(), page, turn.Conversation.ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for id := range 4 { // at once, before anything is swept away
		if a := mustAnswer(t, s, ask(page, id+1, "")); a.State != StatusGone || a.Text != "" {
			t.Errorf("message %d: %+v", id+1, a)
		}
	}
	if list, err := s.Notices(t.Context(), page, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("notices: %+v, %v", list, err)
	}
	chores(t, s)
	for _, table := range []string{"inbox WHERE text", "outbox WHERE text"} {
		if n := count(t, s, table+` LIKE '%xylophone%'`); n != 0 {
			t.Errorf("%d rows of %s hold the word", n, strings.Fields(table)[0])
		}
	}
	if a := mustAnswer(t, s, ask(page, 1, "")); a.State != StatusGone || a.RunID != 1 {
		t.Errorf("after the sweep: %+v", a)
	}
	for _, in := range []Inbound{ask(page, 5, ""), ask("web:cellar", 1, "")} {
		if a := mustAnswer(t, s, in); a.State != StatusDone || a.Text == "" {
			t.Errorf("another conversation's answer: %+v", a)
		}
	}
}

// What is kept goes after a week, like all that is settled.
func TestKeptRepliesArePruned(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	talk(t, s, page, 1, "question", "answer")
	give(t, s, page, 2, "/help", "the commands")
	mustAppend(t, s, "key-1", Message{Role: RoleUser, Content: "note"})
	mustAppend(t, s, "key-2", Message{Role: RoleUser, Content: "note"})
	clock.pass(6 * day)
	mustClean(t, s, 0, 0)
	if a := mustAnswer(t, s, ask(page, 1, "")); a.Text != "answer" {
		t.Errorf("after six days: %+v", a)
	}
	clock.pass(2 * day)
	talk(t, s, page, 3, "newest", "answer")
	mustClean(t, s, 0, 0)
	if _, err := s.Answer(t.Context(), "web", say(page, 1, "").SourceID); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("after eight days: %v", err)
	}
	if n := count(t, s, "outbox"); n != 1 {
		t.Errorf("%d replies are left", n)
	}
	if n := count(t, s, "appends"); n != 1 {
		t.Errorf("%d keys of appends are left, want the newest", n)
	}
}

// Looking an answer up must not walk through a week's replies.
func TestAnswersAreFoundByTheirRun(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	var plan strings.Builder
	rows, err := s.db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN SELECT 1 FROM runs r
		LEFT JOIN outbox o ON o.run_id = r.id AND o.state IN ('kept', 'failed') AND o.state = 'kept' WHERE r.id = 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if !strings.Contains(plan.String(), "outbox_texts") {
		t.Error(plan.String())
	}
}
