package agentloop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/llm/llmtest"
	"parley/tools"
)

// newRecallHarness returns a harness whose model has the tools recall and session_state.
func newRecallHarness(t *testing.T, change func(*Deps)) *harness {
	return newHarness(t, func(p *Deps) {
		var err error
		p.Tools, err = tools.NewRegistry(tools.SessionState(), tools.Tool{
			Name: tools.RecallName, Parameters: json.RawMessage(`{"type":"object"}`),
			Call: tools.Text(func(context.Context, json.RawMessage) (string, error) { return "nothing found", nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(p)
		}
	})
}

// addEarlierConversation adds an earlier conversation to the room, which a message may refer to.
func (h *harness) addEarlierConversation() {
	h.t.Helper()
	h.ask(room, "good morning")
	h.ask(room, "/new")
}

func TestMessagesAboutThePastRemindTheModelOfRecall(t *testing.T) {
	t.Parallel()
	h := newRecallHarness(t, func(p *Deps) { p.HintPhrases = []string{"The  Usual"} })
	h.addEarlierConversation()
	for text, hinted := range map[string]bool{
		"As we discussed, use the blue one":       true,
		"It’s like you said":                      true,
		"Weißt du noch, wie das hieß?":            true,
		"помнишь про лодку?":                      true,
		"我们之前说的那个":                                true,
		"さっきの話だけど":                                true,
		"아까 말한 것":                                 true,
		"the usual, please":                       true,
		"hello there":                             false,
		"like I mentioned":                        true,
		"do it as before":                         true,
		"open that file":                          true,
		"rename that function":                    true,
		"remember that thing?":                    true,
		"list what we did":                        true,
		"the one from earlier":                    true,
		"use the previous one":                    true,
		"we already have it":                      true,
		"öffne diese Datei nochmal":               true,
		"comme je l’ai mentionné":                 true,
		"abre ese archivo":                        true,
		"quella funzione":                         true,
		"nós já temos":                            true,
		"открой тот файл":                         true,
		"打开那个文件":                                  true,
		"あのファイルを開いて":                              true,
		"그 함수를 고쳐":                                true,
		"thus you saidth nothing":                 false,
		"unusual":                                 false,
		strings.Repeat("log ", 600) + "last time": false,
		"": false,
	} {
		h.ask(room, text)
		if told := strings.Contains(h.told(), "may point at something"); told != hinted {
			t.Errorf("%q: hinted %t", text, told)
		}
	}
}

// A hint is never taken for the user's words: neither people nor later windows see it. The archive
// has it after its question.
func TestHintsAreNoPartOfTheConversation(t *testing.T) {
	t.Parallel()
	h := newRecallHarness(t, nil)
	h.addEarlierConversation()
	h.ask(room, "hello")
	h.ask(room, "as we discussed")
	h.ask(room, "thank you")
	if strings.Contains(h.told(), "may point at") {
		t.Error("the hint is sent in a later run")
	}
	for _, command := range []string{"/history", "/search may point at", "/state", "/title"} {
		if got := h.ask(room, command); strings.Contains(got, "may point at something") {
			t.Errorf("%s shows it: %s", command, got)
		}
	}
	want := []string{
		"user: hello", "assistant: echo: hello",
		"user: as we discussed", "internal system: [The message says", "assistant: echo: as we discussed",
		"user: thank you", "assistant: echo: thank you",
	}
	if diff := cmp.Diff(want, h.archive()); diff != "" {
		t.Errorf("the archive (-want +got):\n%s", diff)
	}
	if c, err := h.store.Active(t.Context(), room); err != nil || c.State.Turns != 3 || c.Title != "hello" {
		t.Errorf("%+v, %v", c, err)
	}
}

// archive returns all messages of the conversation as they are stored, each by its
// first words.
func (h *harness) archive() []string {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), room)
	if err != nil {
		h.t.Fatal(err)
	}
	var list []string
	for r, err := range h.store.AllMessages(h.t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll}) {
		if err != nil {
			h.t.Fatal(err)
		}
		line := string(r.Role) + ": " + r.Content
		if r.Internal {
			line = "internal " + line
		}
		if r.State != "" {
			line = r.State + " " + line
		}
		if begin, _, cut := strings.Cut(line, " “"); cut {
			line = begin
		}
		list = append(list, line)
	}
	return list
}

// After an outage, /retry and /undo find the questions, though each has a hint.
func TestHintsDoNotSeparateQuestionsThatAreAnsweredTogether(t *testing.T) {
	t.Parallel()
	h := newRecallHarness(t, nil)
	h.addEarlierConversation()
	down := llmtest.Answer{Status: http.StatusInternalServerError}
	h.server.Script(llmtest.Answer{Text: "hi"}, down, down, down, down, llmtest.Answer{Text: "blue"}, llmtest.Answer{Text: "green"})
	h.ask(room, "hello")
	h.ask(room, "as we discussed, blue?")
	h.ask(room, "or like before, green?")
	if got := h.ask(room, "/retry"); got != "blue" {
		t.Fatalf("the answer to both: %q", got)
	}
	if got := h.ask(room, "/retry"); got != "green" {
		t.Fatalf("the next answer to both: %q", got)
	}
	want := []string{"user: hello", "assistant: hi", "user: as we discussed, blue?", "user: or like before, green?", "assistant: green"}
	if diff := cmp.Diff(want, h.history(room)); diff != "" {
		t.Fatal(diff)
	}
	if c, err := h.store.Active(t.Context(), room); err != nil || c.State.Turns != 2 {
		t.Fatalf("%+v, %v", c.State, err)
	}
	h.ask(room, "/undo")
	const hint = "internal system: [The message says"
	want = []string{
		"user: hello", "assistant: hi", "undone user: as we discussed, blue?", hint, "undone user: or like before, green?", hint,
		hint, "replaced assistant: blue", hint, "undone assistant: green",
	}
	if diff := cmp.Diff(want, h.archive()); diff != "" {
		t.Fatalf("the archive (-want +got):\n%s", diff)
	}
}

// A restart does not change what the model is sent after a hint.
func TestWindowAfterAHintIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	sent := func(restart bool) []string {
		h := newRecallHarness(t, nil)
		h.addEarlierConversation()
		for _, text := range []string{"hello", "as we discussed", "thank you", "and as i said"} {
			if restart {
				h.end()
				h.start()
			}
			h.ask(room, text)
		}
		c, err := h.store.Active(t.Context(), room)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, call := range h.server.Calls() {
			for _, m := range call.Messages {
				list = append(list, m.Role+": "+strings.ReplaceAll(m.Content, c.ID, "the conversation"))
			}
		}
		return list
	}
	if diff := cmp.Diff(sent(false), sent(true)); diff != "" {
		t.Errorf("(-in one go +with restarts):\n%s", diff)
	}
}

// The prompt names the tools for recall and state only if the model has them.
func TestPromptNamesOnlyToolsThatTheModelHas(t *testing.T) {
	t.Parallel()
	h := newRecallHarness(t, nil)
	h.ask(room, "hello")
	if got := h.told(); !strings.Contains(got, tools.RecallName) || !strings.Contains(got, "session_state") {
		t.Errorf("with the tools: %q", got)
	}
	h = newHarness(t, nil)
	h.ask(room, "as we discussed")
	if got := h.told(); strings.Contains(got, tools.RecallName) || strings.Contains(got, "session_state") {
		t.Errorf("without them: %q", got)
	}
}

// The model is not told to look things up when it is shown all messages of the session.
func TestHintNeedsSomethingThatIsNotShown(t *testing.T) {
	t.Parallel()
	h := newRecallHarness(t, nil)
	hinted := func(text string) bool {
		h.t.Helper()
		h.ask(room, text)
		return strings.Contains(h.told(), "may point at something")
	}
	h.ask(room, "the boat is blue")
	if hinted("as we discussed") {
		t.Error("hinted, though all of the session is shown")
	}
	h.ask("cli:elsewhere", "hello")
	h.ask("cli:elsewhere", "/new")
	if hinted("as we discussed") {
		t.Error("hinted, though only another session has more")
	}
	for range 12 {
		h.ask(room, strings.Repeat("many words ", 300))
	}
	if !hinted("as we discussed") {
		t.Error("not hinted, though the window leaves the beginning out")
	}
	h.ask(room, "/new")
	if !hinted("as we discussed") {
		t.Error("not hinted, though there is an earlier conversation")
	}
}
