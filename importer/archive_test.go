package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/branches"
	"parley/conversation/catalog"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/state"
	"parley/conversation/steps"
	"parley/conversation/storetest"
	"parley/conversation/summary"
	"parley/conversation/transcript"
	"parley/conversation/usage"
)

// exported returns the export of a session, with the bytes of its files.
func exported(t testing.TB, s *conversation.Store, key conversation.Key, format transcript.Format) string {
	t.Helper()
	session, err := catalog.New(s).Session(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: key, ByAge: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	var out strings.Builder
	if err := transcript.Export(t.Context(), &out, format, s, session, list, true, func() {}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// importArchive imports an export into its session, and returns the problems of the parts that were left
// out.
func importArchive(t testing.TB, s *conversation.Store, text string) (problems []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	into, err := archive.New(s).Import(t.Context(), "cli:default")
	if err != nil {
		t.Fatal(err)
	}
	err = file.Read("cli:default", now, func(int) {}, func(e Entry) error {
		err := e.Err
		if err == nil {
			if err = into.Into(t.Context(), e.Archived.Session); err == nil {
				_, err = into.Restore(t.Context(), e.Archived.Head, e.Archived.Records)
			}
		}
		if err != nil {
			problems = append(problems, e.Place+": "+err.Error())
		}
		return nil
	})
	if err != nil {
		problems = append(problems, err.Error())
	}
	if err := into.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return problems
}

// expectSameExportAfterImport imports the exports of a session in each format, and compares their exports.
func expectSameExportAfterImport(t *testing.T, from *conversation.Store, key conversation.Key) {
	t.Helper()
	formats := []transcript.Format{transcript.JSON, transcript.JSONL}
	for _, format := range formats {
		to := storetest.New(t)
		if problems := importArchive(t, to, exported(t, from, key, format)); len(problems) > 0 {
			t.Fatalf("%s, %s: %q", key, format, problems)
		}
		for _, again := range formats {
			if diff := cmp.Diff(exported(t, from, key, again), exported(t, to, key, again)); diff != "" {
				t.Fatalf("%s, imported as %s and exported as %s: %s", key, format, again, diff)
			}
		}
	}
}

// randomConversations makes conversations with everything that can be stored.
type randomConversations struct {
	*rand.Rand
	t     *testing.T
	store *conversation.Store
	clock *storetest.Clock
	key   conversation.Key
	n     int // messages so far

	last conversation.MessageID // the newest question
}

var pieces = []string{"", "plain words", "\x1b[2J \u202e \U000E0041 \u2028", "👩‍🚀 ü <&>", `{"quoted": "\n"}`, "line\r\nline\tend", strings.Repeat("long ", 300)}

func (k *randomConversations) text() string {
	return fmt.Sprint(k.IntN(1000), " ", pieces[k.IntN(len(pieces))])
}
func (k *randomConversations) chance(of int) bool { return k.IntN(of) == 0 }

func (k *randomConversations) metadata() metadata.Object {
	if k.chance(2) {
		return ""
	}
	text, err := json.Marshal(map[string]any{"task": k.text(), "n": k.IntN(9), "list": []string{"\u202e"}})
	if err != nil {
		k.t.Fatal(err)
	}
	return metadata.Object(text)
}

// describe gives the active conversation metadata.
func (k *randomConversations) describe() {
	c, err := k.store.Active(k.t.Context(), k.key)
	k.must(err)
	if c.Messages > 0 {
		k.must(k.store.SetMetadata(k.t.Context(), k.key, c.ID, k.metadata()))
	}
}

// say accepts a message and returns the snapshot of its run.
func (k *randomConversations) say() conversation.Snapshot {
	k.n++
	k.clock.Pass(time.Duration(k.IntN(100_000)) * time.Millisecond)
	in := storetest.SayNow(k.clock, k.key, k.n, k.text())
	in.Sender = conversation.Sender{ID: fmt.Sprint(k.IntN(3)), Name: k.text()}
	in.Place = "the kitchen \u202e"
	storetest.Accept(k.t, k.store, in)
	return storetest.Begin(k.t, k.store, k.key, 1_000_000)
}

func (k *randomConversations) steps(model string) (list []steps.Step) {
	for range k.IntN(4) {
		s := steps.Step{Kind: steps.Model, Name: model, At: k.clock.Add(-time.Second), Took: time.Duration(k.IntN(5000)) * time.Millisecond}
		switch k.IntN(3) {
		case 0:
			s.Kind, s.Name, s.CallID, s.Error = steps.Tool, "look_up", "c1", k.text()
		case 1:
			s.Name, s.Purpose = "another", steps.PurposeTitle
		}
		s.FirstByte, s.Prompt, s.Cached, s.Completion, s.Shown, s.Left, s.Window = time.Millisecond, k.IntN(9), k.IntN(9), k.IntN(9), int64(k.IntN(9)), 1, 7
		list = append(list, s)
	}
	return list
}

// answer commits a run that answers the waiting messages.
func (k *randomConversations) answer(snapshot conversation.Snapshot) conversation.Committed {
	run := storetest.Answered(k.key, snapshot, k.text())
	run.Model, run.Rounds, run.Prompt, run.Cached, run.Completion = "gpt", k.IntN(3), k.IntN(999), k.IntN(99), k.IntN(99)
	run.StartedAt, run.Steps, run.Title = k.clock.Add(-2*time.Second), k.steps("gpt"), k.text()
	question, reply := &run.Messages[0], &run.Messages[len(run.Messages)-1]
	question.Metadata, question.Sender = k.metadata(), snapshot.Waiting[0].Sender
	if k.chance(3) {
		question.Note = state.Told{Place: k.text(), State: k.text(), Numbers: []int64{1, 3}}
	}
	switch k.IntN(6) {
	case 0:
		question.Images = []media.Image{{Name: k.text(), MediaType: "image/png", Size: 9, Data: []byte("\x89PNG" + k.text())}, {Name: "the same", MediaType: "image/png", Size: 3, Data: []byte("abc")}}
	case 1:
		question.Files = []media.File{{Name: k.text(), MediaType: "text/plain", Size: 9, Lines: media.Extent{To: len(question.Content)}, Problem: "it is too large"}}
	case 2:
		reply.Stopped, run.Status = true, conversation.StatusStopped
	case 3:
		reply.FinishReason, run.FinishReason = steps.FinishLength, steps.FinishLength
	case 4:
		run.Status, run.Error = conversation.StatusFailed, k.text()
	}
	if k.chance(2) {
		call := []conversation.ToolCall{{ID: "c1", Name: "look_up", Arguments: `{"q": "\u202e` + "\u202e" + `"`}}
		run.Messages = slices.Insert(run.Messages, 1,
			conversation.Message{Role: conversation.RoleSystem, Content: "a hint", Internal: true, Tokens: 2},
			conversation.Message{Role: conversation.RoleAssistant, ToolCalls: call, Tokens: 3},
			conversation.Message{Role: conversation.RoleTool, ToolCallID: "c1", ToolName: "look_up", Content: k.text(), Failed: k.chance(2), Tokens: 4})
	}
	if k.chance(2) {
		run.Instructions = []string{"be brief", k.text()}[:1+k.IntN(2)]
		run.Window = conversation.Window{Start: 1, Cut: 50, Budget: 1000, Named: 2}
		run.Events = []state.Event{{Kind: state.Decided, Text: k.text()}}
	}
	done := storetest.Commit(k.t, k.store, run)
	k.last = conversation.MessageID{Conversation: done.Conversation.ID, Seq: done.Messages[0].Seq}
	return done
}

func (k *randomConversations) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// step does one random thing in the session.
func (k *randomConversations) step() {
	ctx := k.t.Context()
	snapshot := k.say()
	command := conversation.Run{Key: k.key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: snapshot.Waiting, Conversation: snapshot.Conversation, StartedAt: k.clock.Time}
	switch k.IntN(11) {
	case 0: // as /new
		command.Effect.Archive = true
		storetest.Commit(k.t, k.store, command)
	case 1: // as /undo
		if k.last.Conversation == snapshot.Conversation.ID {
			command.Effect.Undo, k.last = k.last.Seq, conversation.MessageID{}
		}
		storetest.Commit(k.t, k.store, command)
	case 2:
		done := k.answer(snapshot)
		for _, s := range k.steps("small") {
			k.must(usage.New(k.store).AddBackground(ctx, usage.Background{Conversation: done.Conversation.ID, Run: snapshot.Waiting[0].ID, Channel: "telegram", Steps: []steps.Step{s}}))
		}
	case 3:
		done := k.answer(snapshot)
		summaries := summary.New(k.store)
		stretch, err := summaries.Stretch(ctx, done.Conversation.ID, done.Conversation.Messages+1, 1000)
		k.must(err)
		if len(stretch.Messages) > 0 {
			_, err = summaries.Add(ctx, stretch, k.text(), 7)
			k.must(err)
		}
	case 4:
		k.answer(snapshot)
		_, err := k.store.Append(ctx, k.key, "", conversation.Message{Role: conversation.RoleSystem, Content: "rule " + k.text(), Tokens: 3},
			conversation.Message{Role: conversation.RoleUser, Content: k.text() + ".", Tokens: 3, Metadata: k.metadata()})
		k.must(err)
	case 5: // as /retry, of an answer without tools
		done := k.answer(snapshot)
		again := storetest.Answered(k.key, k.say(), "again")
		again.Messages, again.Effect.Replace = again.Messages[1:], done.Messages[0].Seq
		storetest.Commit(k.t, k.store, again)
	case 6, 7: // an earlier message is edited
		k.edit(snapshot)
		k.choose()
	default:
		k.answer(snapshot)
	}
}

// edit answers a message that replaces an earlier one of the active conversation.
func (k *randomConversations) edit(snapshot conversation.Snapshot) {
	var asked []int64
	for _, m := range snapshot.History {
		if m.Role == conversation.RoleUser {
			asked = append(asked, m.Seq)
		}
	}
	run := storetest.Answered(k.key, snapshot, k.text())
	if len(asked) > 0 {
		run.Effect.Undo = asked[k.IntN(len(asked))]
	}
	storetest.Commit(k.t, k.store, run)
	k.last = conversation.MessageID{}
}

// choose mostly chooses another version of a message of the active conversation.
func (k *randomConversations) choose() {
	c, err := k.store.Active(k.t.Context(), k.key)
	k.must(err)
	forks, err := branches.New(k.store).Forks(k.t.Context(), c)
	k.must(err)
	if len(forks) == 0 || k.chance(4) {
		return
	}
	versions := forks[k.IntN(len(forks))].Versions
	k.must(branches.New(k.store).Choose(k.t.Context(), c, versions[k.IntN(len(versions))]))
}

// An export contains everything that is stored: an import of it gives the same export again, byte for byte,
// whatever happened in the session.
func TestImportedArchiveIsExportedTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store, clock := storetest.NewAged(t)
			k := &randomConversations{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, store: store, clock: clock, key: "telegram:chat:42"}
			for range 20 {
				k.step()
			}
			k.must(store.SetMetadata(t.Context(), k.key, "", k.metadata()))
			k.must(catalog.New(store).Pin(t.Context(), k.key, k.chance(2)))
			k.describe()
			if k.chance(2) {
				snapshot := k.say()
				storetest.Commit(t, store, conversation.Run{Key: k.key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: snapshot.Waiting,
					Conversation: snapshot.Conversation, Effect: conversation.Effect{Archive: true}})
				k.must(store.SetInstructions(t.Context(), k.key, "from now on"))
			}
			expectSameExportAfterImport(t, store, k.key)
		})
	}
}

// branched returns a store with a conversation of two questions. The first was edited, and its earlier
// version chosen again.
func branched(t *testing.T) (*conversation.Store, conversation.Key) {
	t.Helper()
	store, clock := storetest.NewAged(t)
	k := &randomConversations{Rand: rand.New(rand.NewPCG(1, 1)), t: t, store: store, clock: clock, key: "telegram:chat:42"}
	for range 2 {
		snapshot := k.say()
		storetest.Commit(t, store, storetest.Answered(k.key, snapshot, "an answer"))
	}
	edited := storetest.Answered(k.key, k.say(), "another answer")
	edited.Effect.Undo = 1
	done := storetest.Commit(t, store, edited)
	k.must(branches.New(store).Choose(t.Context(), done.Conversation, 1))
	k.must(catalog.New(store).Pin(t.Context(), k.key, true))
	return store, k.key
}

// After an import, the versions of an edited message can be chosen, and the chat is pinned like before.
func TestImportedConversationHasItsVersions(t *testing.T) {
	t.Parallel()
	from, key := branched(t)
	to := storetest.New(t)
	if problems := importArchive(t, to, exported(t, from, key, transcript.JSONL)); len(problems) > 0 {
		t.Fatal(problems)
	}
	yes := true
	pinned, _, err := catalog.New(to).Sessions(t.Context(), catalog.SessionQuery{Pinned: &yes})
	if err != nil || len(pinned) != 1 {
		t.Errorf("pinned: %+v, %v", pinned, err)
	}
	for _, store := range []*conversation.Store{from, to} {
		c, err := store.Active(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		forks, err := branches.New(store).Forks(t.Context(), c)
		if diff := cmp.Diff([]branches.Fork{{Versions: []int64{1, 5}}}, forks); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		if err := branches.New(store).Choose(t.Context(), c, 5); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(exported(t, from, key, transcript.JSON), exported(t, to, key, transcript.JSON)); diff != "" {
		t.Errorf("with the other version chosen: %s", diff)
	}
}

func TestExampleDatabaseIsExportedTheSameAfterImport(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../conversations.db.example")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "example.db")
	if err := os.WriteFile(path, example, 0o600); err != nil {
		t.Fatal(err)
	}
	store := storetest.Open(t, path)
	list, _, err := catalog.New(store).Sessions(t.Context(), catalog.SessionQuery{})
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, session := range list {
		expectSameExportAfterImport(t, store, session.Key)
	}
}

// An imported session can be continued: its runs get new numbers, and a second import adds nothing.
func TestImportedConversationGoesOn(t *testing.T) {
	t.Parallel()
	from, to := storetest.New(t), storetest.New(t)
	for n := range 5 {
		storetest.Turn(t, from, "telegram:chat:42", n)
	}
	text := exported(t, from, "telegram:chat:42", transcript.JSONL)
	for range 2 {
		if problems := importArchive(t, to, text); len(problems) > 0 {
			t.Fatal(problems)
		}
	}
	storetest.Turn(t, to, "telegram:chat:42", 99)
	list, _, err := catalog.New(to).Conversations(t.Context(), catalog.ConversationQuery{Key: "telegram:chat:42"})
	if err != nil || len(list) != 1 || !list[0].Active || list[0].Messages != 12 {
		t.Fatalf("%+v, %v", list, err)
	}
	expectSameExportAfterImport(t, to, "telegram:chat:42")
}

// Exports of earlier versions, which have only messages, can be imported.
func TestExportOfAnEarlierVersionIsImported(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"talk.json", "talk.jsonl"} {
		entries, err := readPath(t, "../conversation/transcript/testdata/"+name, "")
		if err != nil || len(entries) != 1 || entries[0].Err != nil || entries[0].Archived != nil {
			t.Fatalf("%s: %+v, %v", name, entries, err)
		}
		c := entries[0].Conversation
		if c.ID != "019df0a2-0000-7000-8000-000000000001" || c.Title != "Lisbon" || len(c.Messages) != 6 {
			t.Errorf("%s: %s, %q, %d messages", name, c.ID, c.Title, len(c.Messages))
		}
	}
}

// An archive may have characters in any text that a database can't hold; they are replaced, and the conversation can be read and
// counted.
func TestArchiveWithUnstorableCharactersIsImported(t *testing.T) {
	t.Parallel()
	from := storetest.New(t)
	storetest.CommitTurn(t, from, "telegram:chat:42", "hello", func(run *conversation.Run) {
		run.Steps = []steps.Step{{Kind: steps.Model, Name: "small", At: now, Prompt: 3}, {Kind: steps.Tool, Name: "clock", At: now}}
	})
	text := exported(t, from, "telegram:chat:42", transcript.JSONL)
	text = strings.ReplaceAll(text, `"kind":"model",`, `"kind":"model","purpose":"a\u0000","finish_reason":"b\u0000","answer":"c\u0000",`)
	text = strings.ReplaceAll(text, `"role":"assistant",`, `"role":"assistant","finish_reason":"d\u0000",`)
	text = strings.ReplaceAll(text, `"prompt_tokens"`, `"finish_reason":"e\u0000","prompt_tokens"`)
	if n := strings.Count(text, `\u0000`); n < 5 {
		t.Fatalf("%d characters were put into %s", n, text)
	}
	to := storetest.New(t)
	if problems := importArchive(t, to, text); len(problems) > 0 {
		t.Fatalf("%q", problems)
	}
	list, _, err := catalog.New(to).Conversations(t.Context(), catalog.ConversationQuery{Key: "telegram:chat:42"})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := usage.New(to).Trace(t.Context(), usage.TraceQuery{Conversation: list[0].ID}); err != nil {
		t.Error(err)
	}
	if after := exported(t, to, "telegram:chat:42", transcript.JSONL); strings.Count(after, "�") < 5 {
		t.Errorf("exported %s", after)
	}
}

// A changed or truncated archive adds no invalid messages, and conversations after a broken one are
// imported.
func TestBrokenArchiveIsLeftOut(t *testing.T) {
	t.Parallel()
	from := storetest.New(t)
	storetest.Turn(t, from, "telegram:chat:42", 1)
	text := exported(t, from, "telegram:chat:42", transcript.JSONL)
	versions, key := branched(t)
	tree := exported(t, versions, key, transcript.JSONL)
	lines := strings.SplitAfter(text, "\n")
	document := exported(t, from, "telegram:chat:42", transcript.JSON)
	for name, tt := range map[string]struct{ text, want string }{
		"a message is missing":    {strings.Join(lines[:len(lines)-2], ""), "1 of 2 messages are there"},
		"a line is broken":        {strings.Join(lines[:3], "") + "{\"type\n" + strings.Join(lines[3:], ""), "line 4: unexpected end of JSON input"},
		"the role is unknown":     {strings.Replace(text, `"role":"user"`, `"role":"critic"`, 1), `role "critic"`},
		"a result has no call":    {strings.Replace(text, `"role":"assistant"`, `"role":"tool"`, 1), "does not stand before it"},
		"the run is missing":      {strings.Replace(text, `"run":1`, `"run":7`, 1), "the runs of 1 messages are missing"},
		"the type is unknown":     {strings.Replace(text, `"type":"run"`, `"type":"walk"`, 1), `found "walk"`},
		"the key is none":         {strings.Replace(text, `"telegram:chat:42"`, `"nowhere"`, 1), "allowed: CHANNEL:NAME"},
		"the version is newer":    {strings.Replace(text, `"version":2`, `"version":3`, 1), "found 3, allowed: 2"},
		"a branch follows itself": {strings.Replace(tree, `"follows":0`, `"follows":5`, 1), "a branch that begins with message 5 and follows message 5"},
		"no such branch":          {strings.Replace(tree, `"chosen":4`, `"chosen":9`, 1), "a chosen branch that ends with message 9"},
		"no such end":             {strings.Replace(tree, `"end":[{"seq":4`, `"end":[{"seq":7`, 1), "a branch that ends with message 7"},
		"set aside as nothing":    {strings.Replace(tree, `"set_aside":""`, `"set_aside":"gone"`, 1), `"gone" on its branch`},
		"more tokens than may be": {regexp.MustCompile(`"tokens":\d+`).ReplaceAllString(text, `"tokens":9223372036854775807`), "with 9223372036854775807 tokens"},
		"less tokens than none":   {regexp.MustCompile(`"prompt_tokens":\d+`).ReplaceAllString(text, `"prompt_tokens":-1`), "the number -1"},
		"calls of a user":         {strings.Replace(text, `"role":"user"`, `"role":"user","tool_calls":[{"id":"a","function":{"name":"f"}}]`, 1), `the role "user" and tool calls`},
		"a picture that is none":  {strings.Replace(text, `"role":"user"`, `"role":"user","images":[{"name":"x","media_type":"text/html","size":1}]`, 1), "message 1 with a picture"},
		"a title without end":     {strings.Replace(text, `"title":"`, `"title":"`+strings.Repeat("endless ", 300), 1), "a name of 24"},
		"the document breaks off": {document[:len(document)-40], "the file ends in the middle"},
	} {
		to := storetest.New(t)
		problems := strings.Join(importArchive(t, to, tt.text), "; ")
		if !strings.Contains(problems, tt.want) {
			t.Errorf("%s: %q", name, problems)
		}
		if list, _, err := catalog.New(to).Conversations(t.Context(), catalog.ConversationQuery{}); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	other := storetest.New(t)
	storetest.Turn(t, other, "telegram:chat:7", 1)
	storetest.Chores(t, other)
	both := strings.Replace(text, `"role":"user"`, `"role":"critic"`, 1) + exported(t, other, "telegram:chat:7", transcript.JSONL)
	to := storetest.New(t)
	if problems := importArchive(t, to, both); len(problems) != 1 {
		t.Errorf("%q", problems)
	}
	if _, err := catalog.New(to).Session(t.Context(), "telegram:chat:7"); err != nil {
		t.Error(err)
	}
}

// The memory for an import does not grow with the conversation.
func TestArchiveOfALongConversationIsStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it writes a long conversation")
	}
	from := storetest.New(t)
	question := strings.Repeat("- - - ", 10_000) // without words, since indexing them would take the test too long
	for n := range 5 {
		storetest.Accept(t, from, storetest.Say("telegram:chat:42", n, "again"))
		run := storetest.Answered("telegram:chat:42", storetest.Begin(t, from, "telegram:chat:42", 1000), "yes")
		for range 100 {
			run.Messages = append(run.Messages, conversation.Message{Role: conversation.RoleUser, Content: question, Tokens: 1})
		}
		storetest.Commit(t, from, run)
	}
	session, err := catalog.New(from).Session(t.Context(), "telegram:chat:42")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := catalog.New(from).Conversations(t.Context(), catalog.ConversationQuery{Key: session.Key})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "long.jsonl")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	most := uint64(0)
	n := 0
	watch := func() {
		if n++; n%100 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if err := transcript.Export(t.Context(), out, transcript.JSONL, from, session, list, true, watch); err != nil {
		t.Fatal(err)
	}
	to := storetest.New(t)
	file, err := Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	into, err := archive.New(to).Import(t.Context(), session.Key)
	if err != nil {
		t.Fatal(err)
	}
	err = file.Read(session.Key, now, func(int) {}, func(e Entry) error {
		records := func(yield func(archive.Record, error) bool) {
			for r, err := range e.Archived.Records {
				if watch(); !yield(r, err) {
					return
				}
			}
		}
		added, err := into.Restore(t.Context(), e.Archived.Head, records)
		if err == nil && !added {
			t.Error("nothing was added")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := into.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most > 16<<20 {
		t.Errorf("%d MiB in memory at once, of a conversation with 29 MiB", most>>20)
	}
	if got := exported(t, to, session.Key, transcript.JSONL); !bytes.Contains([]byte(got), []byte(question)) {
		t.Error("it is not there")
	}
}
