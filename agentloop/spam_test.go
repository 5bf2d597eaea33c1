package agentloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/storetest"
	"parley/conversation/usage"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// busy has the model answer once it is told to, so that messages wait meanwhile. It returns what tells it to.
func (h *harness) busy() (answer func()) {
	h.t.Helper()
	begun, begin := waittest.Gate(h.t)
	end, answer := waittest.Gate(h.t)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "Zoe: first" {
			begin()
			<-end
		}
		return llmtest.Answer{Text: "Yes."}
	})
	h.accept(h.inGroup("first", "9", "Zoe"))
	<-begun
	return answer
}

// shown returns what the model was sent of a message of each sender in the last call, and the lines of the gateway.
func (h *harness) linesOf(name string) (lines []string) {
	for _, text := range h.shownToModel() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, name) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// Many messages of one person in a group are kept, and neither fill the window of the others nor hide what these ask.
func TestManyMessagesOfOnePersonInAGroupAreLeftOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	answer := h.busy()
	var batch []conversation.Inbound
	for i := range 70 {
		batch = append(batch, h.inGroup(fmt.Sprintf("spam %d", i), "1", "Bob"))
		if i%20 == 0 {
			batch = append(batch, h.inGroup(fmt.Sprintf("question %d", i), "2", "Ada"))
		}
	}
	h.accept(batch...)
	answer()
	h.reply(room)
	if got, want := h.reply(room), "Yes.\n\n✂ Bob wrote 70 messages at once. I have read the first and the last 10."; got != want {
		t.Errorf("answered with %q, want %q", got, want)
	}
	check := func() {
		t.Helper()
		spam, questions := h.linesOf("Bob: "), h.linesOf("Ada: ")
		if len(spam) != 20 || spam[9] != "Bob: spam 9" || spam[10] != "Bob: spam 60" || len(questions) != 4 {
			t.Errorf("the model was sent %q and %q", spam, questions)
		}
		if notices := h.linesOf("["); len(notices) != 3 || notices[0] != "[11 messages are left out here: their sender wrote too many at once.]" {
			t.Errorf("it was told %q", notices)
		}
	}
	check()
	before := h.shownToModel()
	h.accept(h.inGroup("And now?", "2", "Ada"))
	if got := h.reply(room); got != "Yes." {
		t.Errorf("the next answer is %q", got)
	}
	after := h.shownToModel()
	if strings.Join(after[:len(before)], "|") != strings.Join(before, "|") {
		t.Errorf("the next call repeats\n%q\nas\n%q", before, after)
	}
	kept := 0
	for _, m := range h.history(room) {
		if strings.HasPrefix(m, "user: spam ") {
			kept++
		}
	}
	if kept != 70 {
		t.Errorf("%d of 70 messages are in the conversation", kept)
	}
	h.router.Edited(room) // the loop reads the store
	h.say(room, "/retry")
	h.reply(room)
	if spam := h.linesOf("Bob: "); len(spam) != 20 {
		t.Errorf("read from the store, %d lines of Bob are shown", len(spam))
	}
}

// An app that cuts a long text into messages, and a private chat, are no spam.
func TestPartsOfALongTextCountAsOneMessage(t *testing.T) {
	t.Parallel()
	var pasted, private []conversation.Inbound
	now := time.Now()
	for i := range 30 {
		in := conversation.Inbound{ID: int64(i + 1), Group: true, Sender: conversation.Sender{ID: "1", Name: "Bob"}, Text: strings.Repeat("word ", 800), At: now}
		pasted = append(pasted, in)
		in.Group, in.Text = false, "short"
		private = append(private, in)
	}
	for name, list := range map[string][]conversation.Inbound{"parts of a text": pasted, "a private chat": private} {
		if _, notices := leaveOut(list); notices != nil {
			t.Errorf("%s: %q", name, notices)
		}
	}
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return fourHoursBeforeMidnight }})
	h := newHarnessOn(t, store, func(d *Deps) { d.Budgets.Paces = budgets.OpenPaces(store, budgets.Config{MessagesPerMinute: 2}) })
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "Yes."} })
	var batch []conversation.Inbound
	for i := range 10 {
		in := h.inGroup(fmt.Sprint(i, strings.Repeat(" word", 700)), "1", "Bob")
		batch = append(batch, in)
	}
	h.accept(append(batch, h.inGroup("What do you think?", "1", "Bob"))...)
	h.reply(room)
	if run := h.committed(1); len(run.Took) != 11 {
		t.Errorf("the first run answers %d messages", len(run.Took))
	}
}

// A person whose messages wait for their turn keeps nobody else waiting, and messages that one run answers count each.
func TestOthersDoNotWaitForThePaceOfOne(t *testing.T) {
	t.Parallel()
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return fourHoursBeforeMidnight }}) // a minute never passes
	h := newHarnessOn(t, store, func(d *Deps) { d.Budgets.Paces = budgets.OpenPaces(store, budgets.Config{MessagesPerMinute: 5}) })
	answer := h.busy()
	var batch []conversation.Inbound
	for i := range 250 { // more than a snapshot has
		batch = append(batch, h.inGroup(fmt.Sprintf("spam %d", i), "1", "Bob"))
	}
	h.accept(batch...)
	answer()
	h.reply(room)
	h.reply(room)
	if spam := h.linesOf("Bob: "); len(spam) != 5 {
		t.Errorf("the model was sent %q", spam)
	}
	for _, text := range []string{"Are you there?", "And now?"} {
		h.accept(h.inGroup(text, "2", "Ada"))
		h.reply(room)
		if lines := h.linesOf("Ada: "); len(lines) == 0 || lines[len(lines)-1] != "Ada: "+text || len(h.linesOf("Bob: ")) != 5 {
			t.Errorf("%s: the model was sent %q, and of Bob %q", text, lines, h.linesOf("Bob: "))
		}
	}
}

// Each person pays for their part of a run: budgets and statistics by person add up to what the run has used.
func TestARunIsChargedToThoseWhoseMessagesItAnswers(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{PersonTokens: 1 << 30, TotalTokens: 1 << 30, SessionTokens: 1 << 30})
	answer := h.busy()
	h.accept(h.inGroup(strings.Repeat("What is all this about, and why? ", 30), "1", "Bob"), h.inGroup("And now?", "2", "Ada"), h.inGroup("More.", "1", "Bob"))
	answer()
	h.reply(room)
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return answerWithTokens("Yes.", 10_001) })
	h.reply(room)
	list, err := usage.New(h.store).By(t.Context(), usage.ByPerson, h.store.Now())
	if err != nil {
		t.Fatal(err)
	}
	tokens, cost, stored := map[string]int64{}, 0.0, map[string]float64{}
	for _, p := range list {
		tokens[p.Name] = p.Prompt + p.Completion
		stored[p.Name], _ = p.Cost.Of(p.Model, h.deps.Budgets.Cost)
		cost += stored[p.Name]
	}
	sum := func(scope budgets.Scope, owner string) budgets.Amount {
		used, _, err := h.deps.Budgets.Store.Sums(t.Context(), scope, owner)
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	total := sum(budgets.Total, "")
	bob, ada, zoe := sum(budgets.Person, "cli:1"), sum(budgets.Person, "cli:2"), sum(budgets.Person, "cli:9")
	if ada.Tokens == 0 || bob.Tokens < 5*ada.Tokens || bob.Tokens+ada.Tokens+zoe.Tokens != total.Tokens || bob.Cost+ada.Cost+zoe.Cost != total.Cost || sum(budgets.Session, string(room)) != total {
		t.Errorf("Bob has used %+v, Ada %+v and Zoe %+v, in total %+v", bob, ada, zoe, total)
	}
	if tokens["cli:1"] != bob.Tokens || tokens["cli:2"] != ada.Tokens || tokens["cli:9"] != zoe.Tokens || budgets.Money(cost) != total.Cost {
		t.Errorf("the statistics have %v, which cost %v", tokens, stored)
	}
}

// A person over budget is refused alone. Other people whose messages wait in the same session are answered.
func TestAPersonOverBudgetIsRefusedAlone(t *testing.T) {
	t.Parallel()
	h := newCapped(t, budgets.Config{PersonTokens: 1000})
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return answerWithTokens("Yes.", 1200) })
	h.accept(h.inGroup("Use it up.", "1", "Bob"))
	h.reply(room)
	answer := h.busy()
	h.accept(h.inGroup("What now?", "1", "Bob"), h.inGroup("Are you there?", "2", "Ada"), h.inGroup("Hello?", "1", "Bob"))
	answer()
	h.reply(room)
	if got := h.reply(room); !strings.HasPrefix(got, "You have used today's 1,000 tokens") {
		t.Errorf("the first reply is %q", got)
	}
	if got := h.reply(room); got != "Yes." || len(h.linesOf("Ada: Are you there?")) != 1 {
		t.Errorf("Ada is answered with %q", got)
	}
	if run := h.committed(4); len(run.Took) != 1 || run.Took[0].Sender.ID != "2" {
		t.Errorf("the last run answers %+v", run.Took)
	}
}
