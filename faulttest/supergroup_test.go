package faulttest

import (
	"slices"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
)

// A group before and after it became a supergroup.
var (
	oldGroup = telegramtest.Chat{ID: -5, Type: "group", Title: "Friends"}
	newGroup = telegramtest.Group(-1005, "Friends")
)

func (w *world) inGroup(group telegramtest.Chat, text string) {
	w.telegram.Say(group, person(1), "@"+telegramtest.Bot.Username+" "+text)
}

// upgrade makes the group a supergroup. A service message in each of the two says so.
func (w *world) upgrade() {
	w.telegram.Migrate(oldGroup.ID, newGroup.ID)
	w.telegram.Say(oldGroup, person(1), "", telegramtest.With("migrate_to_chat_id", newGroup.ID))
	w.telegram.Say(newGroup, person(1), "", telegramtest.With("migrate_from_chat_id", oldGroup.ID))
}

func (w *world) awaitInGroup(group telegramtest.Chat, reply string) {
	w.t.Helper()
	gatewaytest.Await(w.t, "the reply "+reply, func() bool {
		return slices.ContainsFunc(w.telegram.SentTo(group.ID), func(m telegramtest.Message) bool { return m.Text == reply })
	})
}

// sawInLastCall reports whether the latest model call contains a text.
func (w *world) sawInLastCall(text string) bool {
	calls := w.model.Calls()
	for _, m := range calls[len(calls)-1].Messages {
		if strings.Contains(m.Content, text) {
			return true
		}
	}
	return false
}

// A group becomes a supergroup during an answer, and the gateway is killed before the answer ends:
// nothing is lost or doubled, and the conversation goes on.
func TestSupergroupKeepsTheConversationOfItsGroupAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("second")
	p := w.startServing()
	w.inGroup(oldGroup, "first")
	w.awaitInGroup(oldGroup, "re first")
	w.inGroup(oldGroup, "second")
	w.awaitReached("the model call", held)
	w.upgrade()
	w.inGroup(newGroup, "third")
	w.awaitStored()
	p.Kill()

	held.Open()
	p = w.startServing()
	w.awaitInGroup(newGroup, "re second")
	w.awaitInGroup(newGroup, "re third")
	w.telegram.Redeliver(0)
	w.inGroup(newGroup, "fourth")
	w.awaitInGroup(newGroup, "re fourth")
	if !w.sawInLastCall("first") {
		t.Error("the supergroup does not know what was said in the group")
	}
	if n := len(w.telegram.SentTo(newGroup.ID)); n != 3 {
		t.Errorf("the supergroup got %d replies, want 3", n)
	}
	if n := len(w.telegram.SentTo(oldGroup.ID)); n != 1 {
		t.Errorf("the group got %d replies, want 1", n)
	}
	p.Stop()
	if n := w.count(`SELECT count(*) FROM conversations`); n != 1 {
		t.Errorf("%d conversations, want 1", n)
	}
}

// Messages of the supergroup arrive before the gateway knows that it was the group: one was answered
// in a session of its own, and another waits when the gateway is killed. The next start moves both to
// the group's session.
func TestRestartMergesASupergroupIntoTheSessionOfItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("waiting")
	p := w.startServing()
	w.inGroup(oldGroup, "first")
	w.awaitInGroup(oldGroup, "re first")
	w.inGroup(newGroup, "early")
	w.awaitInGroup(newGroup, "re early")
	w.inGroup(newGroup, "waiting")
	w.awaitReached("the model call", held)
	w.upgrade()
	w.awaitStored()
	p.Kill()

	held.Open()
	p = w.startServing()
	w.awaitInGroup(newGroup, "re waiting")
	if !w.sawInLastCall("first") || w.sawInLastCall("early") {
		t.Error("the message was not answered in the group's conversation")
	}
	w.telegram.Say(newGroup, person(1), "/search early")
	gatewaytest.Await(w.t, "the search", func() bool {
		return slices.ContainsFunc(w.telegram.SentTo(newGroup.ID), func(m telegramtest.Message) bool {
			return strings.Contains(m.Text, "early") && m.Text != "re early"
		})
	})
	p.Stop()
	if n := w.count(`SELECT count(DISTINCT session_id) FROM conversations`); n != 1 {
		t.Errorf("conversations of %d sessions, want 1", n)
	}
}

// Without a restart, they are moved after the run of the supergroup's own session has ended.
func TestRunningGatewayMergesASupergroupIntoTheSessionOfItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	held := w.holdModel("early")
	p := w.startServing()
	w.inGroup(oldGroup, "first")
	w.awaitInGroup(oldGroup, "re first")
	w.inGroup(newGroup, "early")
	w.awaitReached("the model call", held)
	w.upgrade()
	w.inGroup(newGroup, "second")
	w.awaitInGroup(newGroup, "re second")
	if !w.sawInLastCall("first") {
		t.Error("the supergroup does not know what was said in the group")
	}
	held.Open()
	w.awaitInGroup(newGroup, "re early")
	w.awaitLog("moved place adopted")
	p.Stop()
	if n := w.count(`SELECT count(DISTINCT session_id) FROM conversations`); n != 1 {
		t.Errorf("conversations of %d sessions, want 1", n)
	}
}
