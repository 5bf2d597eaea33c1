package kept_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/kept"
	"parley/conversation/media"
	"parley/conversation/retention"
	"parley/conversation/state"
	"parley/conversation/storetest"
)

const kitchen = conversation.Key("web:kitchen")

// addCommand stores a command and its reply.
func addCommand(t testing.TB, s *conversation.Store, key conversation.Key, id int, command, reply string) {
	t.Helper()
	storetest.Accept(t, s, storetest.Ask(key, id, command))
	storetest.Commit(t, s, storetest.Replied(storetest.Begin(t, s, key, 1000), conversation.KindCommand, conversation.StatusDone, reply))
}

// addTurn stores a question on a page and its answer.
func addTurn(t testing.TB, s *conversation.Store, key conversation.Key, id int, question, answer string) {
	t.Helper()
	storetest.Accept(t, s, storetest.Ask(key, id, question))
	turn := storetest.Begin(t, s, key, 1000)
	run := storetest.Replied(turn, conversation.KindAgent, conversation.StatusDone, answer,
		conversation.Message{Role: conversation.RoleUser, Content: question, SourceID: turn.Waiting[0].SourceID, Tokens: 10}, conversation.Message{Role: conversation.RoleAssistant, Content: answer, Tokens: 10})
	run.Model, run.Rounds, run.Prompt, run.Completion = "test-model", 1, 30, 12
	storetest.Commit(t, s, run)
}

func mustAnswer(t testing.TB, s *conversation.Store, in conversation.Inbound) kept.Answer {
	t.Helper()
	a, err := kept.New(s).Answer(t.Context(), in.Key.Channel(), in.SourceID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A program that repeats a request, maybe after a restart of the gateway, gets the first answer.
func TestARepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	in := storetest.Ask(kitchen, 1, "question")
	if _, err := kept.New(s).Answer(t.Context(), "web", in.SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		t.Fatalf("before it was asked: %v", err)
	}
	storetest.Accept(t, s, in)
	if a := mustAnswer(t, s, in); a.State != conversation.StatusWaiting || a.Key != kitchen || a.ID == 0 {
		t.Errorf("while it waits: %+v", a)
	}
	if waiting, err := s.Inbox(t.Context(), kitchen, 10); err != nil || len(waiting) != 1 || waiting[0].Text != "question" || !waiting[0].Keep {
		t.Errorf("a page that is loaded now shows %+v, %v", waiting, err)
	}
	addTurn(t, s, kitchen, 1, "question", "answer")
	s = storetest.Open(t, s.Path())
	storetest.Accept(t, s, in)
	got := mustAnswer(t, s, in)
	c, _ := s.Active(t.Context(), kitchen)
	hash, _ := in.Fingerprint()
	want := kept.Answer{ID: 1, Key: kitchen, State: conversation.StatusDone, Fingerprint: hash, AskedAt: got.AskedAt, RunID: 1, Kind: conversation.KindAgent, Conversation: c.ID, Through: 2,
		Text: "answer", Model: "test-model", Rounds: 1, Prompt: 30, Completion: 12, At: got.At}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if due, err := s.Due(t.Context(), conversation.Scope{Channel: "web"}); err != nil || len(due) != 0 {
		t.Errorf("it waits to be sent as well: %v, %v", due, err)
	}
	if list, _ := kept.New(s).Notices(t.Context(), kitchen, 0, 10); len(list) != 0 {
		t.Errorf("it would be shown twice: %+v", list)
	}
}

// A fingerprint distinguishes another question with the same key from a repeat, also when
// the text of the first one is deleted.
func TestAnotherQuestionUnderTheSameKeyIsNoticed(t *testing.T) {
	t.Parallel()
	in := storetest.Ask(kitchen, 1, "question")
	in.Attachments = []media.Attachment{{Name: "a.png", Size: 3, Ref: "1"}}
	hash, err := in.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	again := in
	again.Attachments = []media.Attachment{{Name: "a.png", Size: 3, Ref: "2"}} // uploaded anew
	if got, _ := again.Fingerprint(); got != hash {
		t.Error("a repeat with its file uploaded anew counts as another question")
	}
	for name, change := range map[string]func(*conversation.Inbound){
		"text":    func(in *conversation.Inbound) { in.Text = "other" },
		"session": func(in *conversation.Inbound) { in.Key = "web:cellar" },
		"file":    func(in *conversation.Inbound) { in.Attachments = []media.Attachment{{Name: "b.png", Size: 3}} },
	} {
		other := in
		change(&other)
		if got, _ := other.Fingerprint(); got == hash {
			t.Errorf("another %s makes no difference", name)
		}
	}
	s := storetest.New(t)
	storetest.Accept(t, s, in)
	storetest.Commit(t, s, storetest.Replied(storetest.Begin(t, s, kitchen, 1000), conversation.KindAgent, conversation.StatusDone, "answer"))
	if a := mustAnswer(t, s, in); a.Fingerprint != hash {
		t.Errorf("the answer's fingerprint is %s", a.Fingerprint)
	}
}

// Messages that one run has answered together have the same answer. Requests that were
// stopped, failed or withdrawn have a state of their own.
func TestAnswerReportsHowEachRequestEnded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Ask(kitchen, 1, "one"), storetest.Ask(kitchen, 2, "two"))
	run := storetest.Answered(kitchen, storetest.Begin(t, s, kitchen, 1000), "both")
	run.Replies[0].Keep = true
	storetest.Commit(t, s, run)
	for i, want := range []string{"one", "two"} {
		if a := mustAnswer(t, s, storetest.Ask(kitchen, i+1, want)); a.State != conversation.StatusDone || a.Text != "both" {
			t.Errorf("%s: %+v", want, a)
		}
	}
	for i, status := range []conversation.Status{conversation.StatusFailed, conversation.StatusStopped} {
		in := storetest.Ask(kitchen, 10+i, "more")
		storetest.Accept(t, s, in)
		storetest.Commit(t, s, storetest.Replied(storetest.Begin(t, s, kitchen, 1000), conversation.KindAgent, status, "no answer", conversation.Message{Role: conversation.RoleUser, Content: "more", SourceID: in.SourceID}))
		if a := mustAnswer(t, s, in); a.State != conversation.Status(status) || a.Text != "no answer" {
			t.Errorf("%s: %+v", status, a)
		}
	}
	storetest.Accept(t, s, storetest.Ask(kitchen, 20, "never mind"))
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "web"}, storetest.Say(kitchen, 20, "").SourceID); err != nil {
		t.Fatal(err)
	}
	if a := mustAnswer(t, s, storetest.Ask(kitchen, 20, "")); a.State != conversation.StatusWithdrawn {
		t.Errorf("taken back: %+v", a)
	}
	storetest.Turn(t, s, storetest.Chat, 1) // of a platform
	if _, err := kept.New(s).Answer(t.Context(), "telegram", storetest.Say(storetest.Chat, 1, "").SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		t.Errorf("a reply that was sent is kept as well: %v", err)
	}
}

// A page that is reloaded shows the replies of commands and the failed runs, each at its position in the
// conversation. After a lost connection, it gets only new ones.
func TestNoticesKeepTheirPlaceInTheConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addCommand(t, s, kitchen, 1, "/help", "the commands")
	addTurn(t, s, kitchen, 2, "question", "answer")
	addCommand(t, s, kitchen, 3, "/status", "all is well")
	storetest.Accept(t, s, storetest.Ask(kitchen, 4, "more"))
	turn := storetest.Begin(t, s, kitchen, 1000)
	failed := storetest.Replied(turn, conversation.KindAgent, conversation.StatusFailed, "Something went wrong (run 4)", conversation.Message{Role: conversation.RoleUser, Content: "more", SourceID: turn.Waiting[0].SourceID})
	failed.Replies[0].Actions = []conversation.Action{{Label: "Again", Command: "/retry"}}
	storetest.Commit(t, s, failed)
	addCommand(t, s, "web:cellar", 1, "/help", "another session's")

	list, err := kept.New(s).Notices(t.Context(), kitchen, 0, 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	type shown struct {
		After             int64
		Asked, Text, Conv string
	}
	c, _ := s.Active(t.Context(), kitchen)
	var got []shown
	for _, n := range list {
		got = append(got, shown{n.After, n.Asked, n.Text, n.Conversation})
	}
	want := []shown{{0, "/help", "the commands", ""}, {2, "/status", "all is well", c.ID}, {3, "", "Something went wrong (run 4)", c.ID}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(list[2].Actions) != 1 || list[2].Status != conversation.StatusFailed {
		t.Errorf("the failed run: %+v", list[2])
	}
	if rest, err := kept.New(s).Notices(t.Context(), kitchen, list[1].ID, 10); err != nil || len(rest) != 1 || rest[0].ID != list[2].ID {
		t.Errorf("those that follow: %+v, %v", rest, err)
	}
}

// The notice of an answer to a question about a tool call, which the first message of a conversation led
// to, is shown in that conversation, also if it follows an expired one. It names the tool's arguments,
// and is deleted with the conversation.
func TestNoticesBeforeTheFirstAnswerBelongToItsConversation(t *testing.T) {
	t.Parallel()
	for name, expired := range map[string]bool{"the session's first": false, "behind an expired one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			if expired {
				addTurn(t, s, kitchen, 1, "old question", "old answer")
			}
			storetest.Accept(t, s, storetest.Ask(kitchen, 2, "pay"), storetest.Ask(kitchen, 3, "/approve 1"))
			first := storetest.Begin(t, s, kitchen, 1000)
			aside := first
			first.Waiting, aside.Waiting = first.Waiting[:1], first.Waiting[1:]
			storetest.Commit(t, s, storetest.Replied(aside, conversation.KindCommand, conversation.StatusDone, "Allowed: pay 100 to Bob"))
			if expired {
				first = first.Expire(state.Limits{Messages: 1}, s.Now())
			}
			storetest.Commit(t, s, storetest.Replied(first, conversation.KindAgent, conversation.StatusDone, "Paid.",
				conversation.Message{Role: conversation.RoleUser, Content: "pay", SourceID: first.Waiting[0].SourceID}, conversation.Message{Role: conversation.RoleAssistant, Content: "Paid."}))
			c, err := s.Active(t.Context(), kitchen)
			list, listErr := kept.New(s).Notices(t.Context(), kitchen, 0, 10)
			if err != nil || listErr != nil || len(list) != 1 || list[0].Conversation != c.ID || list[0].After != 0 {
				t.Fatalf("%+v, %v, %v, want one of conversation %s, behind message 0", list, err, listErr, c.ID)
			}
			if _, err := s.Delete(t.Context(), kitchen, c.ID); err != nil {
				t.Fatal(err)
			}
			if list, err := kept.New(s).Notices(t.Context(), kitchen, 0, 10); err != nil || len(list) != 0 {
				t.Errorf("after the conversation was deleted: %+v, %v", list, err)
			}
		})
	}
}

// When a conversation is deleted, the kept answers, commands and notices of it are deleted,
// too.
func TestDeletedConversationLeavesNoKeptReplies(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addTurn(t, s, kitchen, 1, "the xylophone", "a xylophone")
	addCommand(t, s, kitchen, 2, "/title xylophone", "It is called xylophone.")
	storetest.Accept(t, s, storetest.Ask(kitchen, 3, "/new"))
	turn := storetest.Begin(t, s, kitchen, 1000)
	fresh := storetest.Replied(turn, conversation.KindCommand, conversation.StatusDone, "The xylophone is kept.")
	fresh.Effect.Archive = true
	storetest.Commit(t, s, fresh)
	addCommand(t, s, kitchen, 4, "/search xylophone", "1. the xylophone") // in the next conversation
	addTurn(t, s, kitchen, 5, "other", "other words")
	addTurn(t, s, "web:cellar", 1, "violin", "a violin")

	if n, err := s.Delete(t.Context(), kitchen, turn.Conversation.ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for id := range 4 { // at once, before anything is swept away
		if a := mustAnswer(t, s, storetest.Ask(kitchen, id+1, "")); a.State != conversation.StatusGone || a.Text != "" {
			t.Errorf("message %d: %+v", id+1, a)
		}
	}
	if list, err := kept.New(s).Notices(t.Context(), kitchen, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("notices: %+v, %v", list, err)
	}
	storetest.Chores(t, s)
	for _, table := range []string{"inbox WHERE text", "outbox WHERE text"} {
		if n := storetest.Count(t, s, `SELECT count(*) FROM `+table+` LIKE '%xylophone%'`); n != 0 {
			t.Errorf("%d rows of %s hold the word", n, strings.Fields(table)[0])
		}
	}
	if a := mustAnswer(t, s, storetest.Ask(kitchen, 1, "")); a.State != conversation.StatusGone || a.RunID != 1 {
		t.Errorf("after the sweep: %+v", a)
	}
	for _, in := range []conversation.Inbound{storetest.Ask(kitchen, 5, ""), storetest.Ask("web:cellar", 1, "")} {
		if a := mustAnswer(t, s, in); a.State != conversation.StatusDone || a.Text == "" {
			t.Errorf("another conversation's answer: %+v", a)
		}
	}
}

// Kept replies are deleted after a week, like all settled messages.
func TestKeptRepliesAreDeletedAfterAWeek(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	const day = 24 * time.Hour
	r := retention.New(s)
	clean := func() {
		t.Helper()
		if _, err := r.Clean(t.Context(), retention.Rules{}, func(retention.Outdated) {}); err != nil {
			t.Fatal(err)
		}
	}
	addTurn(t, s, kitchen, 1, "question", "answer")
	addCommand(t, s, kitchen, 2, "/help", "the commands")
	for _, key := range []string{"key-1", "key-2"} {
		if _, err := s.Append(t.Context(), "api:task-7", key, storetest.User("note")); err != nil {
			t.Fatal(err)
		}
	}
	clock.Pass(6 * day)
	clean()
	if a := mustAnswer(t, s, storetest.Ask(kitchen, 1, "")); a.Text != "answer" {
		t.Errorf("after six days: %+v", a)
	}
	clock.Pass(2 * day)
	addTurn(t, s, kitchen, 3, "newest", "answer")
	clean()
	if _, err := kept.New(s).Answer(t.Context(), "web", storetest.Say(kitchen, 1, "").SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		t.Errorf("after eight days: %v", err)
	}
	if n := storetest.Count(t, s, "SELECT count(*) FROM outbox"); n != 1 {
		t.Errorf("%d replies are left", n)
	}
	if n := storetest.Count(t, s, "SELECT count(*) FROM appends"); n != 1 {
		t.Errorf("%d keys of appends are left, want the newest", n)
	}
}

// The lookup of an answer uses an index: it does not read all replies of a week.
func TestAnswersAreFoundByTheirRun(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	var plan strings.Builder
	rows, err := s.DB().QueryContext(t.Context(), `EXPLAIN QUERY PLAN SELECT 1 FROM runs r
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

// An answer that a program deletes is removed with its text. The answer to another question of the same run
// stays, and so do the messages.
func TestForgetDeletesOneAnswerOnly(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	one, two := storetest.Ask(kitchen, 1, "one"), storetest.Ask(kitchen, 2, "two")
	storetest.Accept(t, s, one)
	if err := kept.New(s).Forget(t.Context(), "web", one.SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		t.Errorf("of a question that waits: %v", err)
	}
	storetest.Accept(t, s, two)
	run := storetest.Answered(kitchen, storetest.Begin(t, s, kitchen, 1000), "both")
	run.Replies[0].Keep = true
	storetest.Commit(t, s, run)
	replies := kept.New(s)
	if err := replies.Forget(t.Context(), "web", one.SourceID); err != nil {
		t.Fatal(err)
	}
	if _, err := replies.Answer(t.Context(), "web", one.SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		t.Errorf("the deleted answer: %v", err)
	}
	if a := mustAnswer(t, s, two); a.Text != "both" {
		t.Errorf("the other answer: %+v", a)
	}
	if err := replies.Forget(t.Context(), "web", two.SourceID); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM outbox WHERE text <> '') + (SELECT count(*) FROM inbox WHERE text <> '')`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows hold words, %v", left, err)
	}
	c, err := s.Active(t.Context(), kitchen)
	if err != nil || c.Messages == 0 {
		t.Errorf("the conversation: %+v, %v", c, err)
	}
	if err := replies.Forget(t.Context(), "web", two.SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		t.Errorf("a second time: %v", err)
	}
}
