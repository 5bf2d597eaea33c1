package window

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley/agentloop/window/windowtest"
	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/state"
	"parley/llm"
	"parley/tools"
)

// randomTurn returns a snapshot of a random conversation: with tools, images, a state, a
// summary, and also without any history, as after /new.
func randomTurn(r *rand.Rand, counter Counter) (turn conversation.Snapshot, users []conversation.Message) {
	w := randomWindow(r, counter)
	for _, e := range w.current {
		if e.Role != "user" {
			break
		}
		users = append(users, Rows([]Entry{e})...)
	}
	picture := func(list []conversation.Message) {
		for i := range list {
			if list[i].Role == conversation.RoleUser && r.IntN(3) == 0 {
				list[i].Images = []media.Image{{Name: "a.png", MediaType: "image/png", Data: []byte("png")}}
				list[i].Tokens = counter.Message(ToModel(&list[i]))
			}
		}
	}
	picture(w.history)
	picture(users)
	turn = conversation.Snapshot{History: w.history, Older: w.older, Place: "a room"}
	turn.Conversation = conversation.Conversation{ID: "0190b0a0-0000-7000-8000-000000000000", Messages: w.older + int64(len(w.history))}
	for range r.IntN(10) {
		n := state.Note{Text: strings.Repeat(fmt.Sprint("note ", r.IntN(100), " "), 1+r.IntN(20)), Turn: 1}
		turn.Conversation.State.Decisions = append(turn.Conversation.State.Decisions, n)
		turn.Conversation.State.Files = append(turn.Conversation.State.Files, n)
	}
	if r.IntN(2) == 0 {
		turn.Summary = conversation.Summary{Through: w.older, Content: strings.Repeat("summed up ", r.IntN(60))}
		for i := 1; i < len(turn.History); i++ {
			if turn.History[i].StartsTurn(&turn.History[i-1]) && r.IntN(2) == 0 {
				turn.Summary.Through = turn.History[i-1].Seq
				break
			}
		}
	}
	return turn, users
}

// systemPrompt has the length of an ordinary system prompt.
const systemPrompt = "You are a helpful assistant in a chat. Answer in the language you are spoken to, " +
	"briefly unless asked for more, and use Markdown where it helps."

func TestWindowOfARandomSnapshotIsValidAndWithinTheBudget(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	registry, err := tools.NewRegistry(tools.SessionState())
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(40) {
		budget := 900 + int(seed*37%3000)
		frame := NewFrame(counter, systemPrompt, registry)
		turn, users := randomTurn(rand.New(rand.NewPCG(seed, 2)), counter)
		window := func() []llm.Message {
			return New(Input{Frame: frame, Snapshot: turn, Asked: users, StateTokens: min(800, budget/4)}).Counted(budget).Messages
		}
		list := window()
		if err := windowtest.Check(list); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if sum := windowtest.Tokens(counter, list) + counter.Tools(frame.Tools); sum > budget {
			t.Fatalf("seed %d: %d tokens with a budget of %d", seed, sum, budget)
		}
		last := list[len(list)-1]
		if want := users[len(users)-1].Content; last.Role != "user" || last.Content != want && !strings.Contains(last.Content, "[") {
			t.Fatalf("seed %d: the window ends with %s: %.60q", seed, last.Role, last.Content)
		}
		if diff := cmp.Diff(list, window(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: equal input gave another window: %s", seed, diff)
		}
		shown := len(list) - 1 - len(users)
		if covered := int64(len(turn.History) - len(Uncovered(turn.History, turn.Summary))); shown > len(turn.History)-int(covered) {
			t.Fatalf("seed %d: %d messages are shown beside a summary of %d of %d", seed, shown, covered, len(turn.History))
		}
	}
}
