package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/search"
	"parley/conversation/state"
	"parley/conversation/storetest"
	"parley/conversation/summary"
	"parley/llm"
)

const room = conversation.Key("cli:room")

// archive is a store with conversations, and the recall tool on it.
type archive struct {
	t     *testing.T
	store *conversation.Store
	said  int

	window int // of the calls, see Session
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	store := storetest.New(t)
	return &archive{t: t, store: store}
}

// turn stores a turn of a session: a question and what follows it.
func (a *archive) turn(key conversation.Key, question string, then ...conversation.Message) {
	a.t.Helper()
	a.commit(key, question, func(turn conversation.Snapshot, run *conversation.Run) {
		at := time.Date(2026, 5, 1, 9, a.said, 0, 0, time.UTC).Local()
		run.Messages = append([]conversation.Message{{Role: conversation.RoleUser, Content: question, At: at}}, then...)
		for i := range run.Messages {
			run.Messages[i].At = at
		}
	})
}

// begin archives the session's conversation and begins a new one.
func (a *archive) begin(key conversation.Key) {
	a.t.Helper()
	a.commit(key, "/new", func(_ conversation.Snapshot, run *conversation.Run) { run.Effect.Archive = true })
}

func (a *archive) commit(key conversation.Key, text string, change func(conversation.Snapshot, *conversation.Run)) {
	a.t.Helper()
	a.said++
	in := conversation.Inbound{Key: key, SourceID: fmt.Sprint(a.said), Address: "here", Text: text, At: time.Now()}
	if _, err := a.store.Accept(a.t.Context(), nil, in); err != nil {
		a.t.Fatal(err)
	}
	turn, err := a.store.Begin(a.t.Context(), key, 1000)
	if err != nil {
		a.t.Fatal(err)
	}
	run := conversation.Run{Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation}
	change(turn, &run)
	if _, err := a.store.Commit(a.t.Context(), run); err != nil {
		a.t.Fatal(err)
	}
}

// indexed waits until the index has a word of the conversation.
func (a *archive) indexed(key conversation.Key, word string) {
	a.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		hits, err := search.New(a.store).Find(a.t.Context(), search.Query{Key: key, Words: word, Limit: 1})
		if err != nil {
			a.t.Fatal(err)
		}
		if len(hits) > 0 {
			return
		}
	}
	a.t.Fatalf("the index never got %q", word)
}

// ask calls the tool in a session's active conversation.
func (a *archive) ask(key conversation.Key, arguments string) string {
	a.t.Helper()
	c, err := a.store.Active(a.t.Context(), key)
	if err != nil {
		a.t.Fatal(err)
	}
	r := registry(a.t, Recall(a.store, llm.NewCounter("gpt-4o")))
	got, _ := r.Call(WithSession(a.t.Context(), Session{Key: key, Conversation: c.ID, Window: a.window}), RecallName, arguments, time.Minute)
	if n := llm.NewCounter("gpt-4o").Text(got.Text); n > recallTokens {
		a.t.Errorf("%s gave %d tokens", arguments, n)
	}
	return got.Text
}

func reply(text string) conversation.Message {
	return conversation.Message{Role: conversation.RoleAssistant, Content: text}
}

func toolCall(name, arguments, result string) []conversation.Message {
	return []conversation.Message{
		{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "call_1", Name: name, Arguments: arguments}}},
		{Role: conversation.RoleTool, ToolName: name, ToolCallID: "call_1", Content: result},
	}
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is missing in:\n%s", w, got)
		}
	}
}

func containsNot(t *testing.T, got string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(got, w) {
			t.Errorf("%q is in:\n%s", w, got)
		}
	}
}

// The action search finds old messages with the turns around them, and range shows more by the turn numbers
// of search.
func TestModelSearchesAndReadsOn(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	for i := range 8 {
		a.turn(room, fmt.Sprintf("question %d", i+1), reply(fmt.Sprintf("answer %d", i+1)))
	}
	a.turn(room, "we take the harbour entrance code 4711", reply("noted"))
	a.turn(room, "thanks", reply("you are welcome"))
	a.indexed(room, "thanks")
	found := a.ask(room, `{"action":"search","query":"harbour code"}`)
	contains(t, found, "Found for “harbour code” in this conversation", "Turn 9, 2026-05-01 09:09\n> user: we take the harbour entrance code 4711\nassistant: noted\n",
		"Turn 8, ", "question 8", "Turn 10, ", "you are welcome", "scope session")
	containsNot(t, found, "question 7")
	contains(t, a.ask(room, `{"action":"range","start_turn":9,"end_turn":9}`), "Turns 9 to 9 of 10.", "4711", "noted")
	page := a.ask(room, `{"action":"range","start_turn":2,"limit":3}`)
	contains(t, page, "Turns 2 to 4 of 10.", "question 2", "answer 4", "[More: what follows: start_turn 5]")
	containsNot(t, page, "question 5", "question 1\n")
	contains(t, a.ask(room, `{"action":"range","start_turn":11}`), "There is no turn 11: this conversation has 10 turns.")
}

// An earlier conversation of the session is found with scope session, and can be read by its id.
func TestEarlierConversationsAreFoundInTheSession(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.turn(room, "the anchor weighs 40 kg", reply("good"))
	c, err := a.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	a.begin(room)
	a.turn(room, "something new", reply("yes"))
	a.indexed(room, "something")
	contains(t, a.ask(room, `{"action":"search","query":"anchor"}`), "Nothing in this conversation has the words “anchor”", "scope session")
	contains(t, a.ask(room, `{"action":"search","query":"anchor","scope":"session"}`), "conversation "+c.ID, "40 kg")
	contains(t, a.ask(room, `{"action":"range","start_turn":1,"conversation":"`+c.ID+`"}`), "40 kg")
	contains(t, a.ask(room, `{"action":"summary","conversation":"`+c.ID+`"}`), "1 turn, 2 messages", "start_turn and conversation "+c.ID, "Turn 1, 2026-05-01 09:01: the anchor weighs 40 kg")

	stretch, err := summary.New(a.store).Stretch(t.Context(), c.ID, 3, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := summary.New(a.store).Add(t.Context(), stretch, "They spoke of an anchor.", 10); err != nil {
		t.Fatal(err)
	}
	contains(t, a.ask(room, `{"action":"summary","conversation":"`+c.ID+`"}`), "of messages 1 to 2:\nThey spoke of an anchor.")
	contains(t, a.ask(room, `{"action":"summary"}`), "Other conversations of this chat:\n- Untitled, ", "id "+c.ID)
}

// A tool call is found by its arguments, such as a file name. Of a long argument, the part around the words is
// shown.
func TestCallsAreFoundByTheirArguments(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	arguments, err := json.Marshal(map[string]string{"path": "lists/provisions.md", "content": strings.Repeat("filler ", 1000) + "ship biscuit " + strings.Repeat("filler ", 1000)})
	if err != nil {
		t.Fatal(err)
	}
	a.turn(room, "write the list", append(toolCall("write_file", string(arguments), "written"), reply("it is there"))...)
	a.indexed(room, "written")
	contains(t, a.ask(room, `{"action":"search","query":"provisions.md"}`), "Turn 1, ", "> assistant: ", "path lists/**provisions.md**", "assistant calls write_file")
	found := a.ask(room, `{"action":"search","query":"biscuit"}`)
	contains(t, found, "ship **biscuit**")
	if len(found) > 3000 {
		t.Errorf("a call of %d bytes fills %d bytes of the page", len(arguments), len(found))
	}
}

// Results of earlier recalls are not found, since they would rank before the original messages.
func TestSearchLeavesOutEarlierLookups(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.turn(room, "the key of the cellar hangs behind the door", reply("noted"))
	for range 5 {
		a.turn(room, "where?", append(toolCall(RecallName, `{"action":"search","query":"cellar key"}`, "cellar key: cellar key"), reply("behind the door"))...)
	}
	a.indexed(room, "behind")
	found := a.ask(room, `{"action":"search","query":"cellar key"}`)
	contains(t, found, "Turn 1, ", "> user: the key of the cellar")
	if strings.Count(found, "\n> ") != 1 || strings.Contains(found, "cellar key: cellar key") || strings.Contains(found, RecallName) {
		t.Errorf("a lookup was found:\n%s", found)
	}
	containsNot(t, a.ask(room, `{"action":"range","start_turn":1}`), "cellar key: cellar key")
	contains(t, a.ask(room, `{"action":"tool_calls"}`), "There are no calls of any tool")
	contains(t, a.ask(room, `{"action":"tool_calls","tool_name":"conversation_recall"}`), "5 calls of conversation_recall")
}

// A turn is on one page only, however many of its messages match. Each page says how to request the next
// one.
func TestEachTurnIsFoundOnOnePage(t *testing.T) {
	a := newArchive(t)
	for i := range 60 {
		a.turn(room, fmt.Sprintf("is the harbour open on day %d?", i+1), reply("the harbour is open"), reply("the harbour, and its café"))
	}
	a.indexed(room, "60")
	seen, pages := map[string]int{}, 0
	for offset := 0; ; pages++ {
		page := a.ask(room, fmt.Sprintf(`{"action":"search","query":"harbour open","offset":%d,"limit":7}`, offset))
		for _, l := range strings.Split(page, "\n") {
			if strings.HasPrefix(l, "Turn ") {
				seen[l]++
			}
		}
		_, next, more := strings.Cut(page, "next matches: offset ")
		if !more {
			break
		}
		if _, err := fmt.Sscan(next, &offset); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 60 || pages != 8 {
		t.Errorf("%d turns on %d pages and a last one", len(seen), pages)
	}
	for turn, times := range seen {
		if times != 1 {
			t.Errorf("%s is shown %d times", turn, times)
		}
	}
	contains(t, a.ask(room, `{"action":"search","query":"harbour","offset":60}`), "Nothing further in this conversation")
}

// A page has as many hits as fit into the window's room for it, the best first.
func TestPageHoldsAsMuchAsFits(t *testing.T) {
	a := newArchive(t)
	for i := range 100 {
		a.turn(room, fmt.Sprintf("the harbour on day %d: %s", i+1, strings.Repeat("words ", 150)), reply("noted"))
	}
	a.turn(room, "the harbour code", reply("is 4711"))
	a.indexed(room, "4711")
	counter := llm.NewCounter("gpt-4o")
	for _, c := range []struct{ window, turns, most int }{{0, 20, 4000}, {8000, 5, 1000}, {500, 1, 300}} {
		a.window = c.window
		page := a.ask(room, `{"action":"search","query":"harbour"}`)
		contains(t, page, "> user: the harbour code\nassistant: is 4711")
		turns := strings.Count(page, "\nTurn ")
		contains(t, page, "next matches: offset ")
		if n := counter.Text(page); n > c.most || turns < c.turns {
			t.Errorf("a window of %d tokens: %d turns in %d tokens\n%s", c.window, turns, n, page)
		}
	}
}

// Of a turn with many messages, a page shows the question, the hits with their neighbours, and the answer.
func TestLongTurnIsShownInParts(t *testing.T) {
	a := newArchive(t)
	var steps []conversation.Message
	for i := range 30 {
		steps = append(steps, toolCall("read", fmt.Sprintf(`{"path":"file%d"}`, i), fmt.Sprintf("content %d", i))...)
	}
	steps[41].Content = "the mooring costs 12 a night"
	a.turn(room, "what does it cost?", append(steps, reply("12"))...)
	a.indexed(room, "mooring")
	found := a.ask(room, `{"action":"search","query":"mooring"}`)
	contains(t, found, "user: what does it cost?\n[40 messages not shown]\nassistant calls read {\"path\":\"file20\"}\n> result of read: the mooring costs 12 a night\n",
		"file21", "[17 messages not shown]\nassistant: 12\n")
}

// The summary of a conversation, also of an earlier one, has its rules, decisions, files and errors.
func TestSummaryShowsTheStateOfTheConversation(t *testing.T) {
	a := newArchive(t)
	a.commit(room, "set up", func(_ conversation.Snapshot, run *conversation.Run) {
		run.Messages = []conversation.Message{{Role: conversation.RoleUser, Content: "set up", Tokens: 12}, reply("done")}
		run.Events = []state.Event{
			{Kind: state.Constrained, Text: "never use an ORM"}, {Kind: state.Decided, Text: "the port is 8080"},
			{Kind: state.Touched, Text: "main.go"}, {Kind: state.Failed, Text: "go build", Error: "exit 1"},
		}
	})
	c, err := a.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	a.begin(room)
	a.turn(room, "another talk", reply("yes"))
	contains(t, a.ask(room, `{"action":"summary","conversation":"`+c.ID+`"}`), "1 turn, 2 messages, about 12 tokens, from ",
		"Rules:\n- never use an ORM (turn 1)", "Decisions:\n- the port is 8080 (turn 1)", "Files:\n- main.go (turn 1)", "Errors:\n- go build: exit 1 (turn 1)")
	containsNot(t, a.ask(room, `{"action":"summary"}`), "ORM")
}

func TestCallsOfAToolAreShownWithTheirResults(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.turn(room, "list the files", append(toolCall("shell_execute", `{"command":"ls"}`, "a.txt b.txt"), reply("two files"))...)
	a.turn(room, "what time is it", append(toolCall("current_time", `{}`, "noon"), reply("noon"))...)
	contains(t, a.ask(room, `{"action":"tool_calls","tool_name":"shell_execute"}`), "1 call of shell_execute", "Turn 1, ", `{"command":"ls"}`, "a.txt b.txt")
	all := a.ask(room, `{"action":"tool_calls"}`)
	contains(t, all, "2 calls of any tool", "noon", "a.txt")
	if strings.Index(all, "noon") > strings.Index(all, "a.txt") {
		t.Errorf("the newest call is not first:\n%s", all)
	}
	contains(t, a.ask(room, `{"action":"tool_calls","tool_name":"nothing"}`), "There are no calls of nothing")
}

// Whatever the model asks, recall shows nothing of another session.
func TestRecallNeverShowsAnotherSession(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	key := func(i int) conversation.Key { return conversation.Key(fmt.Sprintf("cli:%d", i)) }
	ids := map[int]string{}
	for i := range 10 {
		a.turn(key(i), fmt.Sprintf("my secret is mango%d", i), append(toolCall("vault", `{}`, fmt.Sprintf("mango%d", i)), reply("kept"))...)
		c, err := a.store.Active(t.Context(), key(i))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = c.ID
	}
	a.indexed(key(9), "mango9")
	for i := range 10 {
		other := (i + 1) % 10
		for _, arguments := range []string{
			`{"action":"search","query":"mango secret","scope":"session","limit":50}`,
			fmt.Sprintf(`{"action":"search","query":"mango%d","scope":"session"}`, other),
			fmt.Sprintf(`{"action":"search","query":"secret","conversation":"%s"}`, ids[other]),
			fmt.Sprintf(`{"action":"range","start_turn":1,"conversation":"%s"}`, ids[other]),
			fmt.Sprintf(`{"action":"tool_calls","conversation":"%s"}`, ids[other]),
			fmt.Sprintf(`{"action":"summary","conversation":"%s"}`, ids[other]),
		} {
			got := strings.ReplaceAll(a.ask(key(i), arguments), fmt.Sprintf("“mango%d”", other), "") // what was asked for
			containsNot(t, got, fmt.Sprintf("mango%d", other))
		}
	}
}

// If a range does not fit, parts of tool results are left out first, then the oldest turns. The newest turn
// stays.
func TestRangeThatIsTooLongIsCut(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	for i := range 6 {
		a.turn(room, fmt.Sprintf("question %d", i+1), append(toolCall("read", `{}`, strings.Repeat("data ", 3000)), reply(fmt.Sprintf("answer %d", i+1)))...)
	}
	got := a.ask(room, `{"action":"range","start_turn":1}`)
	contains(t, got, "question 1", "answer 6", "[…]")
	a.begin(room)
	for i := range 6 {
		a.turn(room, fmt.Sprintf("question %d", i+1), reply(strings.Repeat("words ", 3000)+fmt.Sprintf("answer %d", i+1)))
	}
	got = a.ask(room, `{"action":"range","start_turn":1}`)
	contains(t, got, "question 6", "answer 6", "Turns 5 to 6 of 6.", "turns 1 to 4 did not fit: start_turn 1, end_turn 4")
	containsNot(t, got, "question 1\n")
	a.begin(room)
	a.turn(room, "one", reply(strings.Repeat("字", 100_000)))
	contains(t, a.ask(room, `{"action":"range","start_turn":1}`), "user: one")
}

func TestInvalidArgumentsAreExplained(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.turn(room, "hello", reply("hi"))
	for arguments, want := range map[string]string{
		`{}`:                  "allowed are search, range, tool_calls, summary",
		`{"action":"delete"}`: "allowed are search, range, tool_calls, summary",
		`{"action":"search"}`: "search needs a query",
		`{"action":"search","query":"a","scope":"all"}`:       "allowed are conversation, session",
		`{"action":"search","query":"a","limit":500}`:         "allowed are 1 to 50",
		`{"action":"search","query":"a","offset":-1}`:         "allowed are 0 to 1000",
		`{"action":"range"}`:                                  "range needs a turn from 1 on",
		`{"action":"range","start_turn":-3}`:                  "range needs a turn from 1 on",
		`{"action":"range","start_turn":3,"end_turn":1}`:      "comes before",
		`{"action":"summary","conversation":"1234"}`:          `no conversation "1234"`,
		`{"action":"range","start_turn":9223372036854775807}`: "this conversation has 1 turn",
		`{"action":5}`: "takes an object with action, query",
		`[]`:           "takes an object with action, query",
	} {
		contains(t, a.ask(room, arguments), want)
	}
	r := registry(t, Recall(a.store, llm.NewCounter("gpt-4o")))
	if got, _ := r.Call(t.Context(), RecallName, `{"action":"summary"}`, time.Minute); !strings.HasPrefix(got.Text, "error: ") {
		t.Errorf("outside of any session: %s", got.Text)
	}
	if !json.Valid(r.List()[0].Parameters) {
		t.Error("the parameters are no JSON")
	}
}

// Search finds words beyond the part of a long file that its message contains, in this session's files, and
// names the page.
func TestSearchFindsPagesOfLongFiles(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	long := strings.Repeat("nothing to see on this line\n", 12000)
	mine := keepFile(t, a.store, room, 1, "log.txt", long+"the blue Treasure is under the oak\n"+long)
	keepFile(t, a.store, "cli:other", 2, "other.txt", long+"another treasure under an oak\n")
	keepFile(t, a.store, room, 3, "short.txt", "a treasure under the oak")
	storetest.Chores(t, a.store)
	got := a.ask(room, `{"action":"search","query":"treasure \"the oak\""}`)
	contains(t, got, fmt.Sprintf("[in log.txt (file %d), page 28: read_file shows it]", mine.ID), "the blue **Treasure** is under **the oak**")
	if strings.Contains(got, "other.txt") {
		t.Error(got)
	}
}
