package agentloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/deferred"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
)

// patient has messages wait for a day.
func patient(d *Deps) { d.GiveUpAfter = 24 * time.Hour }

// outage makes the harness's model fail with a status until the returned function is called.
func (h *harness) outage(status int) (back func()) {
	var works atomic.Bool
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if !works.Load() {
			return llmtest.Answer{Status: status}
		}
		last := c.Messages[len(c.Messages)-1]
		return llmtest.Answer{Text: "answer to " + last.Content}
	})
	return func() { works.Store(true) }
}

// deferred returns the sessions whose messages wait for the model.
func (h *harness) deferred() []deferred.Session {
	h.t.Helper()
	list, err := deferred.New(h.store).Sessions(context.WithoutCancel(h.t.Context()))
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

func (h *harness) awaitDeferred(messages int) {
	h.t.Helper()
	until(h.t, fmt.Sprintf("%d messages to wait", messages), func() bool {
		n := 0
		for _, s := range h.deferred() {
			n += s.Messages
		}
		return n == messages
	})
}

// Every failure of the server or its setup has the message wait, the chat is told once, and the message is answered when the model
// is back. What a chat wrote meanwhile is answered with it.
func TestMessageWaitsForTheModel(t *testing.T) {
	t.Parallel()
	for status, words := range map[int]string{
		429: "The model is busy.", 503: "The model's server is in trouble.", 401: "The model can't be used now.", 402: "The model can't be used now.", 404: "The model's server is in trouble.",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, patient)
			back := h.outage(status)
			h.say(room, "first")
			if notice := h.reply(room); notice != "⏳ "+words+" I will answer when it is back." {
				t.Errorf("the chat is told %q", notice)
			}
			h.say(room, "second")
			h.awaitDeferred(2)
			h.say(room, "/title Named meanwhile")
			if got := h.reply(room); !strings.Contains(got, "Named meanwhile") && got == "" {
				t.Errorf("the command is answered with %q", got)
			}
			h.say(room, "/retry")
			if got := h.reply(room); got != deferred.Words {
				t.Errorf("/retry is answered with %q", got)
			}
			back()
			if got := h.reply(room); !strings.Contains(got, "answer to") || !strings.Contains(got, "second") {
				t.Errorf("the answer is %q", got)
			}
			h.awaitDeferred(0)
			if run := h.lastAgentRun(); len(run.Took) != 2 || run.Status != conversation.StatusDone {
				t.Errorf("the run took %d messages and is %s", len(run.Took), run.Status)
			}
		})
	}
}

func (h *harness) lastAgentRun() (last conversation.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range h.runs {
		if run.Kind == conversation.KindAgent {
			last = run
		}
	}
	return last
}

// Many chats write during an outage. While it lasts, one call at a time tries the model; then all are answered, those that have
// waited longest first.
func TestAllChatsAreAnsweredAfterAnOutage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) { patient(d); d.Config.MaxConcurrentRuns = 4 })
	back := h.outage(503)
	const chats, each = 20, 5
	key := func(chat int) conversation.Key { return conversation.Key(fmt.Sprintf("cli:chat%d", chat)) }
	for i := range each {
		for chat := range chats {
			h.say(key(chat), fmt.Sprintf("message %d", i))
		}
	}
	h.awaitDeferred(chats * each)
	served := h.server.Served()
	h.say(key(0), "one more")
	h.awaitDeferred(chats*each + 1)
	if made := h.server.Served() - served; made > 2 {
		t.Errorf("%d calls were made for a message that came during the outage", made)
	}
	back()
	for chat := range chats {
		if notice := h.reply(key(chat)); !strings.Contains(notice, "I will answer when it is back") {
			t.Errorf("chat %d is told %q", chat, notice)
		}
		if got := h.reply(key(chat)); !strings.HasPrefix(got, "answer to") {
			t.Errorf("chat %d is answered with %q", chat, got)
		}
	}
	for chat := range chats {
		if due, err := h.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: key(chat), Limit: 1}); err != nil || len(due) > 0 {
			t.Errorf("chat %d is sent more: %v, %v", chat, due, err)
		}
	}
	h.awaitDeferred(0)
}

// The process dies while messages wait. The next one answers them, and tells nobody twice.
func TestDeferredMessagesAreAnsweredAfterARestart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, patient)
	back := h.outage(503)
	h.say(room, "hello")
	h.reply(room)
	h.awaitDeferred(1)
	h.end()
	back()
	h.start()
	if got := h.reply(room); got != "answer to hello" {
		t.Errorf("answered with %q", got)
	}
}

// A finished tool call is not made again by the run that goes on after the outage.
func TestDeferredRunGoesOnFromItsJournal(t *testing.T) {
	t.Parallel()
	h := newHarness(t, patient)
	var works atomic.Bool
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		switch last := c.Messages[len(c.Messages)-1]; {
		case last.Role != "tool":
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "current_time", Arguments: "{}"}}}
		case !works.Load():
			return llmtest.Answer{Status: 503}
		}
		return llmtest.Answer{Text: "half past nine"}
	})
	h.say(room, "what time is it?")
	h.reply(room)
	for range 3 { // processes that end do not count as ones that died in the run
		h.awaitDeferred(1)
		h.end()
		h.start()
	}
	works.Store(true)
	if got := h.reply(room); got != "half past nine" {
		t.Errorf("answered with %q", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := 0
	for _, m := range h.runs[len(h.runs)-1].Messages {
		calls += len(m.ToolCalls)
	}
	if calls != 1 {
		t.Errorf("the run has %d tool calls", calls)
	}
}

// A message is given up after give_up_after, in words, and /retry answers it.
func TestDeferredMessageIsGivenUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(d *Deps) { d.GiveUpAfter = time.Second })
	back := h.outage(503)
	h.say(room, "hello")
	h.reply(room)
	if got := h.reply(room); !strings.HasPrefix(got, "I could not reach the model for a second, and have given up. (run ") || !strings.Contains(got, "/retry tries again") {
		t.Errorf("given up with %q", got)
	}
	if run := h.lastAgentRun(); run.Status != conversation.StatusFailed {
		t.Errorf("the run is %s", run.Status)
	}
	h.awaitDeferred(0)
	back()
	h.say(room, "/retry")
	for {
		got := h.reply(room)
		if got == "answer to hello" {
			return
		}
		if !strings.Contains(got, "I will answer") { // the /retry came before the model was known to be back
			t.Fatalf("answered with %q", got)
		}
	}
}

// A program and the operator's terminal get the error at once, and nothing is answered later.
func TestProgramGetsTheErrorAtOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Deps){
		"program":  func(d *Deps) { d.OfPrograms = func(conversation.Key) bool { return true } },
		"terminal": func(d *Deps) { d.OfOperator = func(conversation.Key) bool { return true } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(d *Deps) { patient(d); change(d) })
			h.outage(503)
			h.say(room, "hello")
			if got := h.reply(room); !strings.Contains(got, "Your message is kept; /retry tries again") {
				t.Errorf("answered with %q", got)
			}
			if len(h.deferred()) > 0 {
				t.Error("the message waits")
			}
		})
	}
}

// /stop settles what waits, a deleted message is not answered, and an edited one is answered as it reads now.
func TestDeferredMessageIsStoppedDeletedOrEdited(t *testing.T) {
	t.Parallel()
	h := newHarness(t, patient)
	back := h.outage(503)
	rooms := map[string]conversation.Key{"stopped": "cli:stopped", "deleted": "cli:deleted", "edited": "cli:edited"}
	in := map[string]conversation.Inbound{}
	for name, key := range rooms {
		in[name] = h.inbound(key, name)
		h.accept(in[name])
		h.reply(key)
	}
	h.awaitDeferred(3)
	h.say("cli:stopped", "/stop")
	if got := h.reply("cli:stopped"); got != stopped {
		t.Errorf("/stop is answered with %q", got)
	}
	of := conversation.Account{Channel: "cli"}
	if key, err := h.store.Withdraw(t.Context(), of, in["deleted"].SourceID); err != nil || key == "" {
		t.Fatal(key, err)
	}
	if _, err := h.store.Edit(t.Context(), of, in["edited"].SourceID, "another text", time.Now()); err != nil {
		t.Fatal(err)
	}
	h.router.Edited("cli:edited")
	back()
	if got := h.reply("cli:edited"); got != "answer to another text" {
		t.Errorf("answered with %q", got)
	}
	h.awaitDeferred(0)
	if due, err := h.store.Deliveries(t.Context(), conversation.DeliveryQuery{Limit: 5}); err != nil || len(due) > 0 {
		t.Errorf("also sent: %v, %v", due, err)
	}
}

// A message that waited for the model, and whose run then asks a person, waits for that person alone: it keeps no other session waiting.
func TestDeferredRunThatAsksWaitsForThePerson(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	a := newApprovalHarness(t, storetest.New(t), patient, nil)
	calls := []llm.ToolCall{{ID: "a", Name: "pay", Arguments: `{"sum": 5}`}}
	a.server.Reply(func(c llmtest.Call) llmtest.Answer {
		switch last := c.Messages[len(c.Messages)-1]; {
		case !works.Load():
			return llmtest.Answer{Status: 503}
		case last.Role != "tool":
			return llmtest.Answer{ToolCalls: calls}
		}
		return llmtest.Answer{Text: "paid"}
	})
	a.accept(a.from("ann", "pay 5"))
	a.reply(room)
	works.Store(true)
	if got := a.reply(room); !strings.Contains(got, "May I do this?") {
		t.Fatalf("asked with %q", got)
	}
	a.awaitDeferred(0)
	a.accept(a.from("ann", "/approve 1"))
	a.reply(room) // says that it is allowed
	if got := a.reply(room); got != "paid" {
		t.Errorf("answered with %q", got)
	}
}

// One of several whose messages wait for the model is over budget by then: each of them gets an answer.
func TestDeferredMessagesOfOneOverBudgetAreParted(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return fourHoursBeforeMidnight.Add(time.Since(begun)) }})
	caps, err := budgets.Open(t.Context(), store, budgets.Config{Timezone: "UTC", PersonTokens: 1000})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarnessOn(t, store, func(d *Deps) { patient(d); d.Budgets = Budgets{Store: caps} })
	var works atomic.Bool
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "Bob: Use it up." || works.Load() {
			return answerWithTokens("Yes.", 1200)
		}
		return llmtest.Answer{Status: 503}
	})
	h.accept(h.inGroup("Use it up.", "1", "Bob"))
	h.reply(room)
	h.accept(h.inGroup("Are you there?", "2", "Ada"))
	h.reply(room)
	h.accept(h.inGroup("What now?", "1", "Bob"))
	h.awaitDeferred(2)
	works.Store(true)
	if got := h.reply(room); !strings.HasPrefix(got, "Yes.") {
		t.Errorf("Ada is answered with %q", got)
	}
	if got := h.reply(room); !strings.HasPrefix(got, "You have used today's 1,000 tokens") {
		t.Errorf("Bob is told %q", got)
	}
	h.awaitDeferred(0)
}

// The notice that messages wait belongs to their run, so that it ends the preview of what the run has written.
func TestNoticeOfDeferredMessagesBelongsToTheirRun(t *testing.T) {
	t.Parallel()
	sent := make(chan conversation.Delivery, 1)
	h := newHarness(t, func(d *Deps) {
		patient(d)
		deliver := d.Deliver
		d.Deliver = func(due []conversation.Delivery) {
			select {
			case sent <- due[0]:
			default:
			}
			deliver(due)
		}
	})
	h.outage(503)
	h.say(room, "hello")
	h.reply(room)
	stored, err := h.store.Inbox(t.Context(), room, 1)
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	if notice := <-sent; notice.RunID != stored[0].ID || !notice.Interim {
		t.Errorf("the notice is %+v, want one of run %d", notice, stored[0].ID)
	}
}

// Which sessions try a model: the oldest ones while it answers; while it is down one at a time, that whose try is longest ago; and a
// session that does not begin its run keeps the others waiting for a moment only.
func TestSessionsTryInTurn(t *testing.T) {
	t.Parallel()
	o := newOutages(slog.New(slog.DiscardHandler), 2)
	at := time.Now()
	cause := &llm.Error{Kind: llm.KindUnavailable, Err: errors.New("status 503")}
	var list []deferred.Session
	choose := func() string {
		t.Helper()
		isExpired := func(since time.Time) bool { return at.Sub(since) > time.Hour }
		chosen, others := o.choose(slices.Clone(list), isExpired, at)
		if len(chosen)+len(others) > len(list) {
			t.Errorf("%d sessions are chosen, %d wait, of %d", len(chosen), len(others), len(list))
		}
		return fmt.Sprint(chosen)
	}
	fail := func(key conversation.Key) {
		o.failed("m", key, cause, true, at)
		_, end := o.begin("m", key)
		end()
	}
	for _, name := range []conversation.Key{"cli:a", "cli:b", "cli:c"} {
		list = append(list, deferred.Session{Key: name, Model: "m", Since: at, Until: at})
	}
	fail("cli:a")
	fail("cli:b")
	if got := choose(); got != "[]" {
		t.Errorf("right after the failure, %s try", got)
	}
	at = at.Add(longestPause)
	list[0].Until = at
	if got := choose(); got != "[cli:b]" {
		t.Errorf("%s try first", got)
	}
	if got := choose(); got != "[]" {
		t.Errorf("%s try at the same time", got)
	}
	at = at.Add(trialPatience)
	if got := choose(); got != "[cli:c]" {
		t.Errorf("%s try after a session that did not begin its run", got)
	}
	fail("cli:c")
	o.answered("m", "cli:d", at)
	if got := choose(); got != "[cli:a]" {
		t.Errorf("%s try first after the outage", got)
	}
}

// One message on which the server fails each time keeps nobody else waiting, and fails in words in the end.
func TestServerThatFailsOnOneMessageAnswersOthers(t *testing.T) {
	t.Parallel()
	o := newOutages(slog.New(slog.DiscardHandler), 8)
	at := time.Now()
	cause := &llm.Error{Kind: llm.KindUnavailable, Err: errors.New("status 500")}
	for n := range mostFailures {
		until, giveUp := o.failed("m", "cli:bad", cause, true, at)
		if giveUp {
			t.Fatalf("given up after %d failures", n+1)
		}
		if o.mustWait("m", "cli:good", false, at) {
			t.Fatal("another session waits")
		}
		if !until.After(at) {
			t.Errorf("tried again at once")
		}
		at = until
		o.answered("m", "cli:good", at.Add(-time.Millisecond))
	}
	if _, giveUp := o.failed("m", "cli:bad", cause, true, at); !giveUp {
		t.Error("not given up")
	}
}

// Titles and summaries in the background are not asked for while the latest run of a model has failed.
func TestModelFailsUntilItAnswers(t *testing.T) {
	t.Parallel()
	o := newOutages(slog.New(slog.DiscardHandler), 8)
	o.failed("m", room, &llm.Error{Kind: llm.KindCutOff}, false, time.Now())
	if !o.isFailing("m") {
		t.Error("the failure of a run is not noted")
	}
	o.answered("m", room, time.Now())
	if o.isFailing("m") {
		t.Error("a model that has answered counts as failing")
	}
}

// By hand, what failed by a fault of the server is answered again, once, and nothing that was answered since.
func TestRetryAnswersWhatHasFailed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil) // nothing waits: messages fail at once
	back := h.outage(401)
	for _, key := range []conversation.Key{"cli:failed", "cli:answered"} {
		h.say(key, "hello")
		h.reply(key)
	}
	back()
	h.say("cli:answered", "again")
	h.reply("cli:answered")
	what := deferred.Retry{Channels: func(string) bool { return true }, Failure: func(kind string) bool { return llm.Kind(kind).IsServers() }}
	for want := 1; want >= 0; want-- {
		done, err := deferred.New(h.store).Retry(t.Context(), what)
		if err != nil || done.Failed != want {
			t.Fatalf("%d failed messages are answered again, want %d: %v", done.Failed, want, err)
		}
		if want == 1 {
			if got := h.reply("cli:failed"); got != "answer to hello" {
				t.Errorf("answered with %q", got)
			}
			h.awaitDeferred(0)
		}
	}
}

// A reminder that is due while the model can't be called reaches the chat at once, although the chat knows that messages wait. The
// model answers it when it is back.
func TestReminderIsToldWhileTheModelIsDown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, patient)
	back := h.outage(503)
	h.say(room, "first")
	h.reply(room)
	h.awaitDeferred(1)
	reminder := h.inbound(room, "Reminder: call Ben")
	reminder.Options.Reminder = 1
	h.accept(reminder)
	if told := h.reply(room); !strings.HasPrefix(told, "Reminder: call Ben\n\n⏳") {
		t.Errorf("the chat is told %q", told)
	}
	h.awaitDeferred(2)
	back()
	if answer := h.reply(room); !strings.Contains(answer, "call Ben") {
		t.Errorf("the answer is %q", answer)
	}
}
