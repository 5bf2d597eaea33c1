package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley/agentloop/window"
	"parley/agentloop/window/windowtest"
	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/summary"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// randomSession has random events: one or several questions at once, tools, images, hints, outages,
// /stop, /retry, /undo, edits, summaries, internal messages of programs, and months without messages.
// The test calls the functions of its loop.
type randomSession struct {
	*harness
	loop  *loop
	rand  *lockedRand
	pass  func(time.Duration)
	asked int
	gone  map[string]bool // marks of messages that no window may contain any more
}

// lockedRand is a random source that several goroutines share.
type lockedRand struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (d *lockedRand) IntN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

func newRandomSession(t *testing.T, seed uint64) *randomSession {
	h, pass := newAgingHarness(t)
	h.end() // or its router, when it starts late, would answer messages, too
	r := &lockedRand{rand: rand.New(rand.NewPCG(seed, 3))}
	registry, err := tools.NewRegistry(tools.SessionState(), tools.Tool{
		Name: tools.RecallName, Parameters: json.RawMessage(`{"type":"object"}`),
		Call: tools.Text(func(context.Context, json.RawMessage) (string, error) {
			return strings.Repeat("found ", 1<<r.IntN(9)), nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	parts := h.deps
	parts.Tools, parts.Vision, parts.Files = registry, true, channelFiles{"cat": png}
	parts.Budget, parts.StateBudget, parts.KeepRecent = 1000+r.IntN(3000), 200, 4
	if seed%3 == 2 { // as many pictures as a call may have, and more
		parts.Budget += 30_000
	}
	if seed%2 == 0 {
		parts.Strategy = Summarization
	}
	h.server.Reply(func(llmtest.Call) llmtest.Answer {
		switch r.IntN(4) {
		case 0:
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: fmt.Sprint("c", r.IntN(9)), Name: tools.RecallName, Arguments: `{"action":"search"}`}}}
		case 1:
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "s", Name: tools.SessionStateName, Arguments: `{"kind":"decision","text":"use SQL"}`}}}
		}
		return llmtest.Answer{Text: strings.Repeat("answer ", 1<<r.IntN(8))}
	})
	f := &randomSession{harness: h, loop: newLoop(NewRouter(parts), room), rand: r, pass: pass, gone: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	f.loop.router.background.start(ctx, &workers)
	t.Cleanup(func() { cancel(); workers.Wait() })
	return f
}

var markPattern = regexp.MustCompile(`mark\d+\.`)

// question returns a text with a mark that no other message has.
func (f *randomSession) question() string {
	f.asked++
	opening := []string{"", "as we discussed, ", "", "do you remember? "}[f.rand.IntN(4)]
	return fmt.Sprintf("%smark%d. %s", opening, f.asked, strings.Repeat("word ", 1<<f.rand.IntN(9)))
}

// hears accepts messages and answers all that wait. Before every run it checks that the loop's cache
// gives the same window as the store, and that this is valid.
func (f *randomSession) hears(batch ...conversation.Inbound) {
	f.t.Helper()
	stored, err := f.store.Accept(f.t.Context(), nil, batch...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.loop.post(signal{key: room, inbound: stored})
	for {
		snapshot, err := f.loop.begin(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		if len(snapshot.Waiting) == 0 {
			return
		}
		f.check(snapshot)
		f.loop.step(f.t.Context(), f.t.Context(), snapshot)
	}
}

func (f *randomSession) says(texts ...string) {
	f.t.Helper()
	var batch []conversation.Inbound
	for _, text := range texts {
		batch = append(batch, f.inbound(room, text))
	}
	f.hears(batch...)
}

func (f *randomSession) check(known conversation.Snapshot) {
	f.t.Helper()
	ctx := f.t.Context()
	stored, err := f.store.Begin(ctx, room, f.loop.deps.Budget)
	if err != nil {
		f.t.Fatal(err)
	}
	if known.Conversation.Messages == 0 {
		stored.Conversation.ID = known.Conversation.ID // a new one at every reading
	}
	if stored, err = f.loop.router.complete(ctx, stored); err != nil {
		f.t.Fatal(err)
	}
	windows := func(snapshot conversation.Snapshot) (lists [][]llm.Message, users []conversation.Message) {
		snapshot.Waiting = nextToAnswer(snapshot.Waiting)
		q := question{took: snapshot.Waiting, notes: snapshot.Notes, setup: f.loop.router.setup(snapshot)}
		q.snapshot, _ = snapshot.Replacing()
		q.users = slices.Concat(f.loop.router.noteMessages(q.notes), f.loop.router.userMessages(q.took))
		f.loop.fetchFiles(ctx, &q)
		shown, users := f.loop.withImages(ctx, q)
		for _, budget := range []int{900, f.loop.deps.Budget} {
			lists = append(lists, f.loop.router.windowWithHint(shown, users, "").Counted(budget).Messages)
		}
		return lists, users
	}
	lists, users := windows(known)
	again, _ := windows(stored)
	if diff := cmp.Diff(again, lists, cmpopts.EquateEmpty()); diff != "" {
		f.t.Fatalf("question %d: the window from the loop's memory is another than the store's (-store +loop):\n%s", f.asked, diff)
	}
	for i, budget := range []int{900, f.loop.deps.Budget} {
		f.checkWindow(lists[i], users, budget)
	}
	if renewed := f.loop.router.renewed(known); renewed.Conversation.ID != known.Conversation.ID {
		for _, m := range f.loop.router.windowWithHint(renewed, users, "").Counted(f.loop.deps.Budget).Messages[1:] {
			if m.Role != "user" {
				f.t.Fatalf("question %d: after a long rest the model is shown %s: %.60q", f.asked, m.Role, m.Content)
			}
		}
	}
}

func (f *randomSession) checkWindow(list []llm.Message, users []conversation.Message, budget int) {
	f.t.Helper()
	if err := windowtest.Check(list); err != nil {
		f.t.Fatalf("question %d: %v", f.asked, err)
	}
	if sum := windowtest.Tokens(f.loop.deps.Counter, list) + f.loop.deps.Counter.Tools(f.loop.router.setups.frame(f.loop.deps.Counter, &f.loop.router.setups.agents[0]).Tools); sum > budget {
		f.t.Fatalf("question %d: %d tokens with a budget of %d", f.asked, sum, budget)
	}
	if len(users) > 0 {
		last, want := list[len(list)-1], users[len(users)-1].Content
		if last.Role != "user" || last.Content != want && !strings.Contains(last.Content, "[") {
			f.t.Fatalf("question %d: the window ends with %s: %.60q", f.asked, last.Role, last.Content)
		}
	}
	for _, m := range list {
		for _, mark := range markPattern.FindAllString(m.Text(), -1) {
			if f.gone[mark] {
				f.t.Fatalf("question %d: the model is still shown %s %.60q", f.asked, m.Role, m.Content)
			}
		}
		if strings.Contains(m.Text(), "internal:") || strings.Contains(m.Content, "may point at something") {
			f.t.Fatalf("question %d: an internal message is shown: %.60q", f.asked, m.Content)
		}
	}
}

// forget makes check fail for later windows that contain these messages.
func (f *randomSession) forget(messages []conversation.Message) {
	for _, m := range messages {
		for _, mark := range markPattern.FindAllString(m.Content, -1) {
			f.gone[mark] = true
		}
	}
}

// stored returns the session as the store holds it.
func (f *randomSession) stored() conversation.Snapshot {
	f.t.Helper()
	c, err := f.store.Active(f.t.Context(), room)
	if err != nil {
		f.t.Fatal(err)
	}
	page, err := f.store.Messages(f.t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 10_000})
	if err != nil {
		f.t.Fatal(err)
	}
	return conversation.Snapshot{Conversation: c, History: page.Messages}
}

// doSomething causes one random event.
func (f *randomSession) doSomething() {
	f.t.Helper()
	switch f.rand.IntN(15) {
	default:
		f.says(f.question())
	case 0:
		f.says(f.question(), f.question(), f.question())
	case 1:
		pictures := slices.Repeat([]media.Attachment{{Name: "cat.png", MediaType: "image/png", Ref: "cat"}}, 1+f.rand.IntN(12))
		f.hears(withFiles(f.inbound(room, f.question()), pictures...))
	case 2:
		down := llmtest.Answer{Status: http.StatusInternalServerError}
		f.server.Script(down, down)
		f.says(f.question())
	case 3:
		f.says(f.question(), "/stop")
	case 4:
		f.says("/retry")
	case 5, 6:
		last := window.LastTurn(f.stored().History)
		f.says("/undo")
		f.forget(last)
	case 7:
		before := f.stored()
		f.pass(31 * 24 * time.Hour)
		f.says(f.question())
		if now := f.stored(); before.Conversation.Messages > 0 && now.Conversation.ID == before.Conversation.ID {
			f.t.Fatalf("question %d: the conversation goes on after a rest of a month", f.asked)
		}
		f.forget(before.History)
	case 8:
		f.edits()
	case 9:
		f.sumsUp()
	case 10:
		f.notes()
	case 11:
		f.replaces()
	}
}

// replaces edits the newest user message, which replaces its turn if that has no other user message.
func (f *randomSession) replaces() {
	last := window.LastTurn(f.stored().History)
	in := f.editNewest(f.question())
	if users := window.UserMessages(last); len(users) == 1 && users[0].Seq == in.Replaces.Seq && in.Replaces.Seq == last[0].Seq {
		f.forget(last)
	}
	f.hears(in)
}

// edits changes a message that was answered. The next question tells the model.
func (f *randomSession) edits() {
	history := f.stored().History
	i := slices.IndexFunc(history, func(m conversation.Message) bool { return m.Role == conversation.RoleUser && m.SourceID != "" })
	if i < 0 {
		return
	}
	if _, err := f.store.Edit(f.t.Context(), conversation.Account{Channel: room.Channel()}, history[i].SourceID, f.question(), time.Now()); err != nil {
		f.t.Fatal(err)
	}
	f.loop.post(signal{key: room, edited: true})
}

// sumsUp stores a summary of the oldest turns.
func (f *randomSession) sumsUp() {
	stored := f.stored()
	last := window.LastTurn(stored.History)
	if len(last) == 0 {
		return
	}
	stretch, err := summary.New(f.store).Stretch(f.t.Context(), stored.Conversation.ID, last[0].Seq, 200+f.rand.IntN(1000))
	if err != nil {
		f.t.Fatal(err)
	}
	if len(stretch.Messages) == 0 {
		return
	}
	if _, err := summary.New(f.store).Add(f.t.Context(), stretch, strings.Repeat("summed up ", f.rand.IntN(40)), 80); err != nil {
		f.t.Fatal(err)
	}
	f.loop.post(signal{key: room, edited: true})
}

// notes stores internal messages of every role, as a program does.
func (f *randomSession) notes() {
	ctx := f.t.Context()
	if _, err := f.store.Accept(ctx, nil, f.inbound(room, "?")); err != nil {
		f.t.Fatal(err)
	}
	snapshot, err := f.store.Begin(ctx, room, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	run := conversation.Run{Key: room, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: snapshot.Waiting, Conversation: snapshot.Conversation}
	for _, role := range []conversation.Role{conversation.RoleUser, conversation.RoleAssistant, conversation.RoleTool, conversation.RoleSystem} {
		m := conversation.Message{Role: role, Content: "internal: " + string(role), Tokens: 5, Internal: true}
		if role == conversation.RoleAssistant {
			m.ToolCalls = []conversation.ToolCall{{ID: "c1", Name: tools.RecallName, Arguments: "{}"}}
		}
		run.Messages = append(run.Messages, m)
	}
	if _, err := f.store.Commit(ctx, run); err != nil {
		f.t.Fatal(err)
	}
	f.loop.post(signal{key: room, edited: true})
}

// Whatever happens in a session, the model is sent a valid list within the budget, which ends with
// the question. The list contains nothing that was taken back, has expired or is internal, and a
// restart does not change it.
func TestWindowOfARandomSessionIsValidAndShowsNothingDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it runs six long sessions")
	}
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			f := newRandomSession(t, seed)
			for range 40 {
				f.doSomething()
			}
			if c := f.stored().Conversation; int(c.State.Turns) > f.asked {
				t.Errorf("%d turns of %d questions", c.State.Turns, f.asked)
			}
		})
	}
}
