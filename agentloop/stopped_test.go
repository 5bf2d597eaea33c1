package agentloop

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
)

// hookedWatcher tells a test when a run begins and when questions are stored.
type hookedWatcher struct {
	Watcher
	working func(conversation.Key)
	asked   func()
}

func (w hookedWatcher) Working(ctx context.Context, key conversation.Key, took []conversation.Inbound, to conversation.Destination) {
	w.Watcher.Working(ctx, key, took, to)
	if w.working != nil {
		w.working(key)
	}
}

func (w hookedWatcher) Asked(key conversation.Key) {
	if w.asked != nil {
		w.asked()
	}
	w.Watcher.Asked(key)
}

// otherRoom is a session that a test writes to last: when its loop works, the router has passed on all earlier signals.
const otherRoom = conversation.Key("cli:other")

// A person stops a run as it goes on from its journal. The conversation keeps all of its rounds, and no
// call is said not to have begun that may have been made before the crash.
func TestStopOfAResumedRunKeepsItsJournal(t *testing.T) {
	t.Parallel()
	const said = "user: pay both bills"
	for _, tt := range []struct {
		point string
		want  []string
	}{
		{"model 3", []string{said, "assistant: ", "tool: done: read 1", "tool: done: charge 1", "assistant: ", "tool: done: read 2", "tool: done: charge 2"}},
		{"charge 2", []string{said, "assistant: ", "tool: done: read 1", "tool: done: charge 1", "assistant: ", "tool: done: read 2", "tool: " + outcomeUnknown}},
		{"read 2", []string{said, "assistant: ", "tool: done: read 1", "tool: done: charge 1", "assistant: ", "tool: " + callInterrupted, "tool: " + callStopped}},
	} {
		for name, end := range map[string]func(p *toolProcess){
			"by /stop":      func(p *toolProcess) { p.say(room, "/stop") },
			"by its number": func(p *toolProcess) { p.router.Cancel(room, 1) },
		} {
			t.Run(tt.point+" "+name, func(t *testing.T) {
				t.Parallel()
				store, _ := storeOfAKillAt(t, tt.point)
				var p *toolProcess
				begun, otherWorks := make(chan struct{}), make(chan struct{})
				var once sync.Once
				goOn := make(chan struct{})
				p = newToolProcess(t, store, nothing, func(d *Deps) {
					d.Watcher = hookedWatcher{Watcher: d.Watcher, working: func(key conversation.Key) {
						if key == otherRoom {
							once.Do(func() { close(otherWorks) })
							return
						}
						close(begun)
						<-goOn
					}}
				})
				p.said = 1 // the message from before
				<-begun
				end(p)
				p.say(otherRoom, "hello")
				<-otherWorks // the router has passed on the end of the run by now
				close(goOn)
				if got := p.reply(room); got != stopped {
					t.Errorf("the reply: %q", got)
				}
				if diff := cmp.Diff(tt.want, p.archive()); diff != "" {
					t.Error(diff)
				}
				p.reply(otherRoom)
			})
		}
	}
}

// A /stop that comes while the questions of a round are stored keeps what its other calls have done.
func TestStopWhileQuestionsAreStoredKeepsResults(t *testing.T) {
	t.Parallel()
	var a *approvalHarness
	built, otherWorks := make(chan struct{}), make(chan struct{})
	var asked, worked sync.Once
	a = newApprovalHarness(t, storetest.New(t), func(d *Deps) {
		d.Watcher = hookedWatcher{Watcher: d.Watcher,
			working: func(key conversation.Key) {
				if key == otherRoom {
					worked.Do(func() { close(otherWorks) })
				}
			},
			asked: func() {
				asked.Do(func() {
					<-built
					a.say(room, "/stop")
					a.say(otherRoom, "hello")
					<-otherWorks
				})
			}}
	}, nil, llm.ToolCall{ID: "a", Name: "look", Arguments: "{}"}, llm.ToolCall{ID: "b", Name: "pay", Arguments: "{}"})
	close(built)
	a.say(room, "pay the bill")
	until(t, "the end of the run", func() bool { return !a.waits() })
	if diff := cmp.Diff([]string{"user: pay the bill", "assistant: ", "tool: done: look {}", "tool: " + callStopped}, a.archive()); diff != "" {
		t.Error(diff)
	}
	for _, q := range a.open() {
		t.Errorf("question %d is open", q.ID)
	}
}

// commandRun has the model answer "Half." and, asked again by a command, look and pay.
func commandRun(t *testing.T, store *conversation.Store, at func(*approvalHarness, string)) *approvalHarness {
	t.Helper()
	a := newApprovalHarness(t, store, nil, at)
	var calls atomic.Int32
	a.server.Reply(func(c llmtest.Call) llmtest.Answer {
		last := c.Messages[len(c.Messages)-1]
		switch {
		case last.Role == "tool":
			if at != nil {
				at(a, "model 2")
			}
			return llmtest.Answer{Text: "Done."}
		case len(c.Messages) > 2 && strings.Contains(last.Text(), "status"):
			return llmtest.Answer{Text: "I look first."}
		case calls.Add(1) == 1:
			return llmtest.Answer{Text: "Half.", FinishReason: "length"}
		}
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}, {ID: "b", Name: "pay", Arguments: "{}"}}}
	})
	return a
}

// talk returns the archive of the room without replaced messages.
func (h *harness) talk() []string {
	return slices.DeleteFunc(h.archive(), func(line string) bool { return strings.HasPrefix(line, "replaced ") })
}

// What the tools of a /continue or /retry have done stays when a person stops the run, whether it waits for an answer or was
// interrupted by a crash.
func TestStopOfACommandsRunKeepsResults(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"/continue": {"user: pay the bill", "assistant: Half.", "user: Go on exactly where your answer broke off, and repeat nothing of it.",
			"assistant: ", "tool: done: look {}", "tool: " + callStopped},
		"/retry": {"user: pay the bill", "assistant: ", "tool: done: look {}", "tool: " + callStopped},
	} {
		check := func(t *testing.T, a *approvalHarness) {
			t.Helper()
			if diff := cmp.Diff(want, a.talk()); diff != "" {
				t.Error(diff)
			}
			if got := a.ask(room, "what is the status?"); got != "I look first." || a.server.Refused() > 0 {
				t.Errorf("the next answer: %q; refused: %v", got, a.server.Refusals())
			}
			if a.calls()["pay {}"] > 0 || len(a.open()) > 0 {
				t.Error("the call was made, or the question is open")
			}
		}
		t.Run(command+" that waits for an answer", func(t *testing.T) {
			t.Parallel()
			a := commandRun(t, storetest.New(t), nil)
			a.ask(room, "pay the bill")
			a.ask(room, command) // the question
			if got := a.ask(room, "/stop"); got != stopped {
				t.Errorf("the reply: %q", got)
			}
			check(t, a)
		})
		t.Run(command+" that a crash has interrupted", func(t *testing.T) {
			t.Parallel()
			a := commandRun(t, storetest.New(t), copyAt[*approvalHarness]("model 2"))
			a.ask(room, "pay the bill")
			a.ask(room, command)
			a.ask(room, "/deny 1")
			a.reply(room)
			a.end()
			store := storetest.Open(t, a.copied)
			if _, err := store.Accept(t.Context(), nil, conversation.Inbound{Key: room, SourceID: "99", Address: "99", Text: "/stop"}); err != nil {
				t.Fatal(err)
			}
			again := commandRun(t, store, nil)
			again.said = 99
			got := again.reply(room)
			if strings.HasPrefix(got, "🚫 Denied") { // of /deny, where the crash came before it was sent
				got = again.reply(room)
			}
			if got != stopped {
				t.Errorf("the reply: %q", got)
			}
			denied := slices.Clone(want)
			denied[len(denied)-1] = "tool: " + callDenied
			if diff := cmp.Diff(denied, again.talk()); diff != "" {
				t.Error(diff)
			}
			if again.server.Served() > 0 {
				t.Error("the model was asked")
			}
		})
	}
}

// A /continue does not begin a run beside the one that waits for an answer: that one would be lost, and its calls made again.
func TestContinueWaitsForTheOpenQuestion(t *testing.T) {
	t.Parallel()
	a := commandRun(t, storetest.New(t), nil)
	a.ask(room, "tell me a story")
	a.ask(room, "pay the bill") // the question
	if got := a.ask(room, "/continue"); got != "Question 1 is open. Answer it first." {
		t.Errorf("the reply: %q", got)
	}
	a.ask(room, "/approve 1")
	if got := a.reply(room); got != "Done." {
		t.Errorf("the answer: %q", got)
	}
	if diff := cmp.Diff(map[string]int{"look {}": 1, "pay {}": 1}, a.calls()); diff != "" {
		t.Error(diff)
	}
}

// Somebody edits a command whose run waits for an answer into another command. What its tools have done stays, and the person is told
// that the new command is not carried out.
func TestCommandThatIsChangedKeepsResults(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"/continue", "/retry"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			a := commandRun(t, storetest.New(t), nil)
			a.ask(room, "pay the bill")
			in := a.inbound(room, command)
			a.accept(in)
			a.reply(room) // the question
			key, err := a.store.Edit(t.Context(), conversation.Account{Channel: "cli"}, in.SourceID, "/new", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			a.router.Edited(key)
			if got := a.reply(room); got != commandChanged {
				t.Errorf("the reply: %q", got)
			}
			want := []string{"user: pay the bill", "assistant: Half.", "assistant: ", "tool: done: look {}", "tool: " + callStopped}
			if diff := cmp.Diff(want, a.talk()); diff != "" {
				t.Error(diff)
			}
			if got := a.ask(room, "what is the status?"); got != "I look first." || a.server.Refused() > 0 {
				t.Errorf("the next answer: %q; refused: %v", got, a.server.Refusals())
			}
			if len(a.open()) > 0 || a.calls()["pay {}"] > 0 {
				t.Error("the call was made, or the question is open")
			}
		})
	}
}

// The conversation of a /continue is archived while the gateway is down, after a crash in the middle of its run: what its tools have done is
// kept.
func TestContinueOfAnArchivedConversationKeepsResults(t *testing.T) {
	t.Parallel()
	a := commandRun(t, storetest.New(t), copyAt[*approvalHarness]("model 2"))
	a.ask(room, "pay the bill")
	a.ask(room, "/continue")
	a.ask(room, "/deny 1")
	a.reply(room)
	a.end()
	store := storetest.Open(t, a.copied)
	if _, err := store.Archive(t.Context(), room, ""); err != nil {
		t.Fatal(err)
	}
	again := commandRun(t, store, nil)
	for got := again.reply(room); !strings.HasPrefix(got, "There is nothing to go on with"); got = again.reply(room) {
		if !strings.HasPrefix(got, "🚫 Denied") { // of /deny, where the crash came before it was sent
			t.Fatalf("the reply: %q", got)
		}
	}
	if diff := cmp.Diff([]string{"assistant: ", "tool: done: look {}", "tool: " + callDenied}, again.talk()); diff != "" {
		t.Error(diff)
	}
}

// A run that was stopped after its tools can be gone on with: its answer is not whole.
func TestContinueGoesOnAfterStoppedTools(t *testing.T) {
	t.Parallel()
	a := commandRun(t, storetest.New(t), nil)
	a.ask(room, "tell me a story")
	a.ask(room, "pay the bill")
	a.ask(room, "/stop")
	a.server.Reply(func(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "I looked, and paid nothing."} })
	if got := a.ask(room, "/continue"); got != "I looked, and paid nothing." {
		t.Errorf("the reply: %q", got)
	}
}

// A reminder that is due while a question is open waits behind it. A /stop settles it, too, but the person is reminded.
func TestStopShowsRemindersThatWaited(t *testing.T) {
	t.Parallel()
	a := newApprovalHarness(t, storetest.New(t), nil, nil)
	a.ask(room, "pay the bill")
	reminder := a.inbound(room, "⏰ Reminder 1 is due: call mum")
	reminder.NeverCommand, reminder.Options.Reminder = true, 1
	a.accept(reminder)
	a.reply(room) // that messages wait
	if got := a.ask(room, "/stop"); got != "⏰ Reminder 1 is due: call mum\n\n"+stopped {
		t.Errorf("the reply: %q", got)
	}
}

// In a group anybody may stop the answer under way. What others have asked meanwhile is still answered; what the
// person who stops it has asked is not.
func TestStopInAGroupLeavesTheQuestionsOfOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.HasSuffix(c.LastUser(), "a tale") {
			return llmtest.Answer{Text: strings.Repeat("once upon a time ", 200), NoFinish: true, Silence: true}
		}
		return llmtest.Echo(c)
	})
	h.accept(h.inGroup("a tale", "Ada", "Ada"))
	until(t, "the first words", func() bool { return strings.HasPrefix(h.preview(room), "once upon") })
	h.accept(h.inGroup("what time is it?", "Bob", "Bob"), h.inGroup("why?", "Cem", "Cem"), h.inGroup("/stop", "Cem", "Cem"))
	if got := h.reply(room); !strings.HasPrefix(got, "once upon") || !strings.HasSuffix(got, "Stopped.") {
		t.Fatalf("reply: %q", got)
	}
	if got := h.reply(room); got != "echo: Bob: what time is it?" {
		t.Fatalf("Bob was told %q", got)
	}
	if calls := len(h.server.Calls()); calls != 2 {
		t.Errorf("the model was called %d times", calls)
	}
}

// A /stop that comes when the answer is there already stops nothing, and drops no question of somebody else that
// has not been taken yet.
func TestLateStopInAGroupDropsNoQuestionOfOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	bob, cem := h.inGroup("what time is it?", "Bob", "Bob"), h.inGroup("/stop", "Cem", "Cem")
	bob.Quiet = time.Minute // the run waits for more, and the /stop comes first
	h.accept(bob)
	h.accept(cem)
	if got := h.reply(room); got != "Nothing is running." {
		t.Fatalf("Cem was told %q", got)
	}
	h.accept(h.inGroup("/help", "Bob", "Bob"))
	if got := h.reply(room); got != "echo: Bob: what time is it?" {
		t.Fatalf("Bob was told %q", got)
	}
}
