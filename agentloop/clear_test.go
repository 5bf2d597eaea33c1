package agentloop

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"parley/conversation"
)

// people writes messages of people in a group, and waits for the answers.
type people struct {
	*harness
}

func (p people) say(id, name, text string) string {
	in := p.inbound(room, text)
	in.Group, in.Sender = true, conversation.Sender{ID: id, Name: name}
	p.accept(in)
	return p.reply(room)
}

// code returns the code from a reply that asks to confirm /clear.
func (p people) code(reply string) string {
	p.t.Helper()
	found := regexp.MustCompile("`/clear (yes [0-9a-f]{4})`").FindStringSubmatch(reply)
	if found == nil {
		p.t.Fatalf("no code in %q", reply)
	}
	return found[1]
}

// adminList returns the IDs of a group's admins, or the platform's error.
type adminList struct {
	ids string
	err error
}

func (a *adminList) IsAdmin(_ context.Context, in conversation.Inbound) (bool, error) {
	return strings.Contains(a.ids, in.Sender.ID), a.err
}

// In a group, the code that one person was given is not valid for another.
func TestOnlyThePersonWhoAskedCanConfirmClearInAGroup(t *testing.T) {
	t.Parallel()
	p := people{newHarness(t, func(parts *Deps) { parts.Admins = &adminList{ids: "2"} })}
	p.say("1", "Ada", "secret plan")
	asked := p.say("1", "Ada", "/clear")
	if !strings.HasPrefix(asked, "Ada, this deletes") {
		t.Fatalf("clear: %q", asked)
	}
	adas := p.code(asked)
	for _, attempt := range []string{"/clear yes", "/clear " + adas, "/clear yes 0000"} {
		if got := p.say("2", "Bob", attempt); !strings.HasPrefix(got, "Bob, this deletes") || p.code(got) == adas {
			t.Errorf("Bob's %s: %q", attempt, got)
		}
	}
	if n := len(p.history(room)); n != 2 {
		t.Fatalf("%d messages are left of 2", n)
	}
	if got := p.say("1", "Ada", "/clear "+strings.ToUpper(adas)); !strings.HasPrefix(got, "Deleted") || len(p.history(room)) != 0 {
		t.Fatalf("Ada's confirmation: %q", got)
	}
	p.say("1", "Ada", "another plan")
	if got := p.say("1", "Ada", "/clear "+adas); strings.HasPrefix(got, "Deleted") {
		t.Fatalf("the code of one conversation deleted another: %q", got)
	}
}

func TestClearNeedsAnAdminWhenOthersHaveWrittenInTheGroup(t *testing.T) {
	t.Parallel()
	admins := &adminList{ids: "9"}
	p := people{newHarness(t, func(parts *Deps) { parts.Admins = admins })}
	refused := func(id, name, text string) {
		t.Helper()
		if got := p.say(id, name, text); !strings.HasPrefix(got, name+", others have a part in this conversation, so only an admin of this group can delete it.") {
			t.Errorf("%s: %q", name, got)
		}
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want(p.say("1", "Ada", "/clear"), "There is nothing to delete: this conversation is empty.")
	p.say("1", "Ada", "our plan")
	refused("2", "Bob", "/clear") // who has said nothing in it
	adas := p.code(p.say("1", "Ada", "/clear"))
	p.say("2", "Bob", "my part of the plan")
	refused("1", "Ada", "/clear "+adas) // though it was hers when she asked
	refused("2", "Bob", "/clear")
	if n := len(p.history(room)); n != 4 {
		t.Fatalf("%d messages are left of 4", n)
	}
	admins.err = errors.New("no network")
	if got := p.say("9", "Eve", "/clear"); !strings.Contains(got, "I can't find out at the moment whether you are an admin") {
		t.Errorf("while the platform does not tell: %q", got)
	}
	admins.err = nil
	code := p.code(p.say("9", "Eve", "/clear"))
	if got := p.say("9", "Eve", "/clear "+code); !strings.HasPrefix(got, "Deleted") || len(p.history(room)) != 0 {
		t.Errorf("the admin: %q", got)
	}
}

// The group talk that was kept is deleted with the conversation, even if that is empty. Its authors
// count as people who have written in the conversation.
func TestClearDeletesWhatWasSaidBetweenOthers(t *testing.T) {
	t.Parallel()
	p := people{newHarness(t, func(parts *Deps) { parts.Admins = &adminList{ids: "9"} })}
	aside := p.inbound(room, "between us")
	aside.Aside, aside.Group, aside.Sender = true, true, conversation.Sender{ID: "2", Name: "Bob"}
	p.accept(aside)
	if got := p.say("1", "Ada", "/clear"); !strings.HasPrefix(got, "Ada, others have a part in this conversation") {
		t.Errorf("Ada: %q", got)
	}
	asked := p.say("9", "Eve", "/clear")
	if want := "with 0 messages, and what people said to each other here (1 message), for good."; !strings.Contains(asked, want) {
		t.Errorf("asked: %q", asked)
	}
	if got := p.say("9", "Eve", "/clear "+p.code(asked)); !strings.HasPrefix(got, "Deleted") {
		t.Errorf("confirmed: %q", got)
	}
	if got := p.say("9", "Eve", "/clear"); got != "There is nothing to delete: this conversation is empty." {
		t.Errorf("afterwards: %q", got)
	}
}

// On platforms that name no admins, nobody is one.
func TestNobodyClearsASharedConversationWherePlatformsNameNoAdmins(t *testing.T) {
	t.Parallel()
	p := people{newHarness(t, nil)}
	for i := range 2 {
		p.say(fmt.Sprint(i), "Somebody", "hello")
	}
	if got := p.say("1", "Bob", "/clear"); !strings.Contains(got, "only an admin of this group can delete it") {
		t.Errorf("got %q", got)
	}
}

// Instructions belong to the session: /clear deletes a conversation, and the next one begins with
// the same instructions.
func TestInstructionsOutliveAClearedConversation(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "hello")
	if err := h.store.SetInstructions(t.Context(), room, "Answer in rhymes."); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"/clear yes", "/new"} {
		h.ask(room, command)
		h.ask(room, "are you still there?")
		calls := h.server.Calls()
		if system := calls[len(calls)-1].Messages[0].Content; !strings.Contains(system, "Answer in rhymes.") {
			t.Errorf("after %s the model is told %q", command, system)
		}
	}
}
