package browsertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/conversation/steps"
	"parley/conversation/storetest"
)

// world is a database in which people have talked for a month, as an operator
// finds it. Its times are taken from a clock that the test moves.
type world struct {
	t     *testing.T
	store *conversation.Store
	dice  *rand.Rand
	now   time.Time
	n     int // messages so far
}

// person is somebody in a place, with what they ask.
type person struct {
	key   conversation.Key
	who   conversation.Sender
	title string
	asks  []string
}

var people = []person{
	{"telegram:chat:5550101", conversation.Sender{ID: "5550101", Name: "Mira Kovač"}, "Three days in Lisbon", []string{
		"We have three days in Lisbon in April, with a six-year-old. What would you not miss?",
		"She gets tired after two hours of walking. What does a good day look like?",
		"What time is it there now? I want to call the flat."}},
	{"discord:thread:99120", conversation.Sender{ID: "77", Name: "Jonas"}, "Why the arm64 build fails", []string{
		"The build fails on arm64 only: undefined reference to `__atomic_load_16`.",
		"Could you write the change to the Dockerfile?",
		"And does that make the image larger?"}},
	{"discord:dm:41", conversation.Sender{ID: "41", Name: "Priya Raman"}, "Questions for the interview", []string{
		"Give me five questions that show whether somebody has run a database in production.",
		"What would a bad answer to the third be?"}},
	{"telegram:chat:-1005550199", conversation.Sender{ID: "5550102", Name: "Ada L."}, "Sunday lunch for eight", []string{
		"We are eight on Sunday, two vegetarians. Something that cooks itself?",
		"How much feta for eight?"}},
	{"web:lisbon", conversation.Sender{}, "A letter to the landlord", []string{
		"The heating has been out for nine days. Write to the landlord, firm and polite."}},
}

const listAnswer = "Three things that work well with a six-year-old:\n\n1. **Oceanário** in Parque das Nações: go at opening time, then take the cable car along the river.\n2. **Tram 28**, early, from Martim Moniz: before nine there are seats.\n3. **Belém**: pastéis first, then the tower from outside and the big lawn.\n\nDo you stay in the centre?"

// worldFile is the database of a world, which the first test that needs it makes.
var worldFile struct {
	sync.Once
	bytes []byte
}

// copyWorld puts the database of a world into the folder of a gateway that is not
// started yet.
func copyWorld(t *testing.T, dir string) {
	t.Helper()
	worldFile.Do(func() {
		w := newWorld(t, t.TempDir())
		w.live()
		path := w.store.Path()
		w.must(w.store.Close())
		file, err := os.ReadFile(path)
		w.must(err)
		worldFile.bytes = file
	})
	if len(worldFile.bytes) == 0 {
		t.Fatal("the database could not be made, as an earlier test says")
	}
	if err := os.WriteFile(filepath.Join(dir, "conversations.db"), worldFile.bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newWorld makes the database.
func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, dice: rand.New(rand.NewPCG(1, 2)), now: time.Now().Add(-30 * 24 * time.Hour)}
	w.store = storetest.Open(t, filepath.Join(dir, "conversations.db"), conversation.Config{Now: func() time.Time { return w.now }})
	return w
}

// live lets everybody talk until now, more in the day than at night.
func (w *world) live() {
	end := time.Now().Add(-2 * time.Minute)
	for w.now.Before(end) {
		who := people[min(w.dice.IntN(len(people)), w.dice.IntN(len(people)))]
		w.talk(who, who.asks[w.dice.IntN(len(who.asks))])
		pause := time.Duration(10+w.dice.IntN(100)) * time.Minute
		if hour := w.now.Hour(); hour < 7 || hour > 22 {
			pause *= 4
		}
		w.now = w.now.Add(min(pause, max(end.Sub(w.now)/3, time.Minute)))
	}
	w.now = time.Now()
	w.failDelivery()
	w.pair()
	w.must(bots.New(w.store).SetHealth(w.t.Context(), conversation.Account{Channel: "discord"}, bots.Interrupted, "the gateway of Discord does not answer; trying again"))
	w.now = w.now.Add(-50 * time.Hour)
	w.must(bots.New(w.store).SetHealth(w.t.Context(), conversation.Account{Channel: "telegram"}, bots.Serving, ""))
	w.now = time.Now()
}

// talk has one message asked and answered.
func (w *world) talk(p person, text string) conversation.Run {
	w.n++
	ctx := w.t.Context()
	in := conversation.Inbound{Key: p.key, SourceID: fmt.Sprint("seed-", w.n), Address: "{}", Sender: p.who, Text: text, At: w.now}
	_, err := w.store.Accept(ctx, nil, in)
	w.must(err)
	turn, err := w.store.Begin(ctx, p.key, 30_000)
	w.must(err)
	run := w.run(p, turn, text)
	w.now = run.StartedAt.Add(run.Steps[len(run.Steps)-1].At.Sub(run.StartedAt) + run.Steps[len(run.Steps)-1].Took)
	_, err = w.store.Commit(ctx, run)
	w.must(err)
	due, err := w.store.Deliveries(ctx, conversation.DeliveryQuery{Key: p.key, Ready: true, Limit: 5, Accounts: []conversation.Account{{Channel: p.key.Channel()}}})
	w.must(err)
	for _, d := range due {
		d.Sent = []string{fmt.Sprint(w.n)}
		w.must(w.store.Mark(ctx, d, conversation.MarkSent, ""))
	}
	return run
}

// run is what answers a turn: one call of the model, or a tool between two.
func (w *world) run(p person, turn conversation.Snapshot, text string) conversation.Run {
	model := []string{"gpt-5-mini", "gpt-5-mini", "gpt-5-mini", "claude-sonnet-4-5"}[w.dice.IntN(4)]
	shown := min(turn.Conversation.Messages+2, 40)
	run := conversation.Run{
		Key: p.key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Title: p.title, Model: model, StartedAt: w.now,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: text, Tokens: 24}},
	}
	at := w.now.Add(time.Duration(4+w.dice.IntN(20)) * time.Millisecond)
	call := func(took time.Duration, errorText string) {
		run.Rounds++
		prompt, completion := 700+w.dice.IntN(2400)+30*int(shown), 40+w.dice.IntN(400)
		run.Steps = append(run.Steps, steps.Step{
			Kind: steps.Model, Name: model, At: at, Took: took, FirstByte: took / 3, Prompt: prompt, Completion: completion,
			Shown: shown, Left: max(turn.Conversation.Messages-38, 0), Window: prompt - 12, Error: errorText,
		})
		run.Prompt, run.Completion, at = run.Prompt+prompt, run.Completion+completion, at.Add(took)
	}
	tool := func(id, name, arguments, result string, took time.Duration) {
		run.Steps = append(run.Steps, steps.Step{Kind: steps.Tool, Name: name, At: at, Took: took, CallID: id})
		run.Messages = append(run.Messages,
			conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: id, Name: name, Arguments: arguments}}, Tokens: 20},
			conversation.Message{Role: conversation.RoleTool, ToolCallID: id, ToolName: name, Content: result, Tokens: 40})
		at = at.Add(took + 3*time.Millisecond)
	}
	think := func() time.Duration { return time.Duration(900+w.dice.IntN(4200)) * time.Millisecond }
	switch dice := w.dice.IntN(12); {
	case dice < 4:
		call(think()/2, "")
		tool(fmt.Sprint("call_", w.n), "conversation_recall", `{"action":"search","query":"walking two hours","scope":"session","limit":5}`,
			"turn 12, 3 March: She gets tired after two hours of walking.\nturn 13: Then one outing in the morning and one late in the afternoon.", 38*time.Millisecond)
		tool(fmt.Sprint("call_b", w.n), "current_time", `{"timezone":"Europe/Lisbon"}`, "Tuesday, 2026-03-03 20:47:09 WET (+00:00)", 2*time.Millisecond)
		call(think(), "")
	case dice == 4:
		took := think()
		call(took/4, "429 Too Many Requests: rate limit reached, asked to wait 1.2 s")
		at = at.Add(1200 * time.Millisecond)
		call(took, "")
	default:
		call(think(), "")
	}
	reply := listAnswer
	if w.dice.IntN(25) == 0 {
		run.Status, run.Error = conversation.StatusFailed, "model gpt-5-mini: 503 Service Unavailable after 4 tries"
		run.Steps[len(run.Steps)-1].Error = "503 Service Unavailable"
		reply = "Something went wrong (run 1234). /retry tries again."
	} else {
		run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleAssistant, Content: reply, Tokens: 120})
	}
	run.Replies = []conversation.Delivery{{Key: p.key, Channel: p.key.Channel(), Address: "{}", Text: reply}}
	return run
}

// failDelivery leaves a reply that its platform has refused, one that is on its
// way, and a message that waits, all in places that no channel of the test serves.
func (w *world) failDelivery() {
	ctx := w.t.Context()
	for n, text := range []string{"What is left to pack?", "Which adapter do I need?"} {
		key := conversation.Key(fmt.Sprint("telegram:chat:", 5550300+n))
		w.n++
		_, err := w.store.Accept(ctx, nil, conversation.Inbound{Key: key, SourceID: fmt.Sprint("seed-", w.n), Address: "{}", Sender: people[0].who, Text: text, At: w.now})
		w.must(err)
		turn, err := w.store.Begin(ctx, key, 30_000)
		w.must(err)
		run := w.run(people[0], turn, text)
		run.Key, run.Replies[0].Key = key, key
		_, err = w.store.Commit(ctx, run)
		w.must(err)
	}
	due, err := w.store.Deliveries(ctx, conversation.DeliveryQuery{Key: "telegram:chat:5550300", Ready: true, Limit: 5, Accounts: []conversation.Account{{Channel: "telegram"}}})
	w.must(err)
	due[0].Attempts = 1
	w.must(w.store.Mark(ctx, due[0], conversation.MarkFailed, "telegram: 403 Forbidden: bot was blocked by the user"))
	_, err = w.store.Accept(ctx, nil, conversation.Inbound{Key: "discord:dm:41", SourceID: "seed-waits", Address: "{}", Sender: people[2].who, Text: "One more: what would you ask at the very end?", At: w.now.Add(-4 * time.Minute)})
	w.must(err)
}

func (w *world) pair() {
	ctx := w.t.Context()
	_, _, err := pairing.New(w.store).Ask(ctx, conversation.Account{Channel: "telegram"}, "5550777", "Tom Okafor")
	w.must(err)
	p, _, err := pairing.New(w.store).Ask(ctx, conversation.Account{Channel: "discord"}, "41", "Priya Raman")
	w.must(err)
	_, err = pairing.New(w.store).Approve(ctx, p.Code)
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
