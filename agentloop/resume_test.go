package agentloop

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/transcript"
)

func TestResumeGoesOnWithAnEarlierConversation(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"/resume 2", "/resume #2", "/resume About CATS", "/resume cats", "id"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.ask(room, "about cats")
			cats, err := h.store.Active(t.Context(), room)
			if err != nil {
				t.Fatal(err)
			}
			h.ask(room, "/new")
			h.ask(room, "about dogs")
			command := strings.Replace(how, "id", "/resume "+cats.ID, 1)
			if how != "id" {
				command = how
			}
			got := h.ask(room, command)
			for _, part := range []string{"“about cats” goes on, with 2 messages", "“about dogs” is kept", "**Assistant:** echo: about cats"} {
				if !strings.Contains(got, part) {
					t.Fatalf("%q lacks %q", got, part)
				}
			}
			h.ask(room, "and their food?")
			want := []string{"user: about cats", "assistant: echo: about cats", "user: and their food?", "assistant: echo: and their food?"}
			if diff := cmp.Diff(want, h.history(room)); diff != "" {
				t.Fatal(diff)
			}
			calls := h.server.Calls()
			if n := len(calls[len(calls)-1].Messages); n != 4 {
				t.Fatalf("the model was shown %d messages", n)
			}
		})
	}
}

func TestResumeListsConversationsAndReportsUnknownOnes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	if got := h.ask(room, "/resume"); got != "There are no conversations to list here." {
		t.Fatalf("of nothing: %q", got)
	}
	h.ask(room, "tea in winter")
	h.ask(room, "/new")
	h.ask(room, "tea in summer")
	if got := h.ask(room, "/resume"); !strings.Contains(got, "#2 tea in winter") || !strings.Contains(got, "`/resume 2`") {
		t.Fatalf("list: %q", got)
	}
	if got := h.ask(room, "/resume tea"); !strings.Contains(got, "fits 2 conversations") || strings.Count(got, "`/resume 0") != 2 {
		t.Fatalf("two fit: %q", got)
	}
	if got := h.ask(room, "/resume coffee"); !strings.Contains(got, "no conversation “coffee” here") {
		t.Fatalf("none fits: %q", got)
	}
	if got := h.ask(room, "/resume 1"); !strings.Contains(got, "goes on here already") {
		t.Fatalf("the present one: %q", got)
	}
}

// A conversation of another session can't be resumed by its ID.
func TestResumeNeverOpensConversationsOfOtherSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask("cli:other", "the secret is plum")
	secret, err := h.store.Active(t.Context(), "cli:other")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{secret.ID, "secret", "1"} {
		if got := h.ask(room, "/resume "+words); !strings.Contains(got, "no conversation") || strings.Contains(got, "plum") {
			t.Errorf("/resume %s: %q", words, got)
		}
	}
}

func TestTitleIsShownAndSetForThePlatformToo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	if got := h.ask(room, "/title"); !strings.Contains(got, "no title yet") {
		t.Fatalf("without: %q", got)
	}
	if got := h.ask(room, "/title  A walk\nin the park "); !strings.Contains(got, "“A walk in the park” from now on") {
		t.Fatalf("set: %q", got)
	}
	h.ask(room, "hello")
	if got := h.ask(room, "/title"); !strings.Contains(got, "“A walk in the park”") {
		t.Fatalf("shown: %q", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if diff := cmp.Diff([]string{"cli:room A walk in the park"}, h.titled); diff != "" {
		t.Fatal(diff)
	}
}

func TestUndoTakesBackTurnByTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, text := range []string{"one", "two", "three"} {
		h.ask(room, text)
	}
	if got := h.ask(room, "/undo"); !strings.Contains(got, "“three”") {
		t.Fatalf("undo: %q", got)
	}
	if got := h.ask(room, "/undo"); !strings.Contains(got, "“two”") {
		t.Fatalf("undo: %q", got)
	}
	h.ask(room, "four")
	want := []string{"user: one", "assistant: echo: one", "user: four", "assistant: echo: four"}
	if diff := cmp.Diff(want, h.history(room)); diff != "" {
		t.Fatal(diff)
	}
	calls := h.server.Calls()
	for _, m := range calls[len(calls)-1].Messages {
		if strings.Contains(m.Content, "two") || strings.Contains(m.Content, "three") {
			t.Errorf("the model still sees %q", m.Content)
		}
	}
	c, err := h.store.Active(t.Context(), room)
	if err != nil || c.Messages != 8 {
		t.Fatalf("the archive holds %d messages of 8, %v", c.Messages, err)
	}
	for range 2 {
		h.ask(room, "/undo")
	}
	if got := h.ask(room, "/undo"); !strings.Contains(got, "nothing to take back") {
		t.Fatalf("undo of nothing: %q", got)
	}
}

func TestExportHoldsTheConversationAsPeopleReadIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	if got := h.ask(room, "/export"); !strings.Contains(got, "empty") {
		t.Fatalf("of nothing: %q", got)
	}
	h.ask(room, "Grüße & <b>Küsse</b>/..")
	h.ask(room, "taken back")
	h.ask(room, "/undo")
	if got := h.ask(room, "/export pdf"); !strings.Contains(got, "`md`, `json` or `jsonl`") {
		t.Fatalf("pdf: %q", got)
	}
	h.say(room, "/export", "/export json", "later")
	for name, parts := range map[string][]string{
		"grüße-b-küsse-b.md":   {"# Grüße & <b>Küsse</b>/..\n", "**You** · ", "\n\necho: Grüße & <b>Küsse</b>/..\n"},
		"grüße-b-küsse-b.json": {`"title":"Grüße`, `"role":"user"`, `"content":"echo: Grüße & <b>Küsse</b>/.."`},
	} {
		file := h.transcript(name)
		for _, part := range parts {
			if !strings.Contains(file, part) {
				t.Errorf("%s lacks %q: %s", name, part, file)
			}
		}
		if strings.Contains(file, "taken back") || strings.Contains(file, "later") {
			t.Errorf("%s contains internal messages or turns that were taken back: %s", name, file)
		}
	}
}

// transcript returns the file of that name among the replies that are due.
func (h *harness) transcript(name string) string {
	h.t.Helper()
	var due []conversation.Delivery
	until(h.t, "the files", func() bool {
		var err error
		if due, err = h.store.Deliveries(h.t.Context(), conversation.DeliveryQuery{Key: room, Ready: true, Limit: 10}); err != nil {
			h.t.Fatal(err)
		}
		return len(due) == 3
	})
	var names []string
	for _, d := range due {
		if d.Transcript == nil {
			continue
		}
		if names = append(names, d.Transcript.Name); d.Transcript.Name == name {
			c, place, seen, err := transcript.Read(h.t.Context(), h.store, *d.Transcript)
			if err != nil {
				h.t.Fatal(err)
			}
			var file strings.Builder
			writer := transcript.NewWriter(&file, transcript.Format(d.Transcript.Format), c.Key, place)
			if err := errors.Join(transcript.Copy(writer, c, seen), writer.Close()); err != nil {
				h.t.Fatal(err)
			}
			return file.String()
		}
	}
	h.t.Fatalf("there is no file %s, but %q", name, names)
	return ""
}

// When a conversation is too long for a platform's file, its newest part is sent, and the reply says
// so.
func TestExportOfALongConversationIsItsNewestPart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.fill(6, strings.Repeat("word ", 1<<20/5))
	h.say(room, "/export")
	until(t, "the file", func() bool {
		due, err := h.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: room, Ready: true, Limit: 1})
		return err == nil && len(due) == 1
	})
	due, err := h.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: room, Ready: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := due[0]; got.Transcript.From != 6 || !strings.Contains(got.Text, "without its oldest 5 messages") {
		t.Fatalf("from %d: %q", got.Transcript.From, got.Text)
	}
}

// fill stores turns without a model.
func (h *harness) fill(n int, text string) {
	h.t.Helper()
	if _, err := h.store.Accept(h.t.Context(), nil, h.inbound(room, "?")); err != nil {
		h.t.Fatal(err)
	}
	turn, err := h.store.Begin(h.t.Context(), room, 1)
	if err != nil {
		h.t.Fatal(err)
	}
	run := conversation.Run{Key: room, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation}
	for range n {
		run.Messages = append(run.Messages,
			conversation.Message{Role: conversation.RoleUser, Content: text, Tokens: 1 + len(text)/4},
			conversation.Message{Role: conversation.RoleAssistant, Content: "noted", Tokens: 5})
	}
	if _, err := h.store.Commit(h.t.Context(), run); err != nil {
		h.t.Fatal(err)
	}
}
