package conversation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/search"
	"parley/conversation/storetest"
)

// Pages of any size return each message once, backwards and forwards, while more are
// appended.
func TestPagingThroughMessages(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var want []string
	for i := range 23 {
		want = append(want, fmt.Sprint("note ", i))
		mustAppend(t, s, "", conversation.Message{Role: conversation.RoleAssistant, Content: want[i]})
	}
	c, _ := s.Active(t.Context(), task)
	for limit := 1; limit < 26; limit++ {
		var back, forth []string
		for before, more := int64(0), true; more; {
			page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, Before: before, Limit: limit})
			if err != nil || len(page.Messages) == 0 {
				t.Fatalf("before %d: %d, %v", before, len(page.Messages), err)
			}
			back = append(storetest.Texts(page.Messages), back...)
			before, more = page.Messages[0].Seq, page.More
			mustAppend(t, s, "", conversation.Message{Role: conversation.RoleAssistant, Content: "late", Internal: true})
		}
		for after, more := int64(0), true; more; {
			page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, After: after, Forward: true, Limit: limit})
			if err != nil || len(page.Messages) == 0 {
				t.Fatalf("after %d: %d, %v", after, len(page.Messages), err)
			}
			forth = append(forth, storetest.Texts(page.Messages)...)
			after, more = page.Messages[len(page.Messages)-1].Seq, page.More
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Fatalf("limit %d, backwards: %s", limit, diff)
		}
		if diff := cmp.Diff(want, forth); diff != "" {
			t.Fatalf("limit %d, forwards: %s", limit, diff)
		}
	}
}

// Views for people leave out system messages, tools and replaced answers; ViewAll has them all.
func TestViewsOfAConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	done := mustAppend(t, s, "",
		conversation.Message{Role: conversation.RoleSystem, Content: "system"},
		conversation.Message{Role: conversation.RoleUser, Content: "question"},
		conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c", Name: "f"}}},
		conversation.Message{Role: conversation.RoleTool, Content: "result", ToolCallID: "c"},
		conversation.Message{Role: conversation.RoleAssistant, Content: "answer"})
	storetest.Accept(t, s, storetest.Say(task, 1, "/retry"))
	turn := storetest.Begin(t, s, task, 1000)
	again := storetest.Answered(task, turn, "other answer")
	again.Messages, again.Effect.Replace = again.Messages[1:], 2
	storetest.Commit(t, s, again)
	for view, want := range map[conversation.View][]string{
		conversation.ViewPeople: {"question", "other answer"},
		conversation.ViewTalk:   {"question", "other answer"},
		conversation.ViewAll:    {"system", "question", "", "result", "answer", "other answer"},
	} {
		page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: done.Conversation.ID, View: view})
		if diff := cmp.Diff(want, storetest.Texts(page.Messages)); diff != "" || err != nil {
			t.Errorf("%s: %v %s", view, err, diff)
		}
	}
	if page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: "unknown"}); err != nil || len(page.Messages) != 0 {
		t.Errorf("an unknown conversation: %v, %v", page, err)
	}
}

// A conversation is found by the beginning of its id, unless two ids begin like this.
func TestAConversationIsFoundByTheBeginningOfItsID(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, "telegram:chat:1", 1)
	first, _ := s.Active(t.Context(), "telegram:chat:1")
	for _, id := range []string{first.ID, first.ID[:30], strings.ToUpper(first.ID)} {
		if c, err := catalog.New(s).Find(t.Context(), id); err != nil || c.ID != first.ID {
			t.Errorf("%s: found %+v, %v", id, c, err)
		}
	}
	storetest.Turn(t, s, "telegram:chat:2", 1)
	if _, err := catalog.New(s).Find(t.Context(), "0"); err == nil || !strings.Contains(err.Error(), "several conversations") {
		t.Errorf("an ambiguous id gave %v", err)
	}
	for _, id := range []string{"", "ffffffff", "' OR 1 = 1 --"} {
		if _, err := catalog.New(s).Find(t.Context(), id); err == nil {
			t.Errorf("%q was found", id)
		}
	}
}

// A model's server may send any bytes in the calls of tools. On PostgreSQL a run with a NUL in the id of a
// call could never be stored, so that its session got no answer any more, and one in the arguments made
// searches fail.
func TestMessagesHoldTextOfEveryEngine(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.CommitTurn(t, s, task, "look it up", func(run *conversation.Run) {
		last := len(run.Messages) - 1
		run.Messages = slices.Insert(run.Messages, last,
			conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "call\x00", Name: "f\xff", Arguments: "{\x00"}}},
			conversation.Message{Role: conversation.RoleTool, ToolCallID: "call\x00", ToolName: "f\xff", Content: "found"})
	})
	active, err := s.Active(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: active.ID, View: conversation.ViewAll})
	if err != nil || len(page.Messages) != 4 {
		t.Fatalf("%d messages, %v", len(page.Messages), err)
	}
	asked, result := page.Messages[1], page.Messages[2]
	want := conversation.ToolCall{ID: "call\uFFFD", Name: "f\uFFFD", Arguments: "{\uFFFD"}
	if asked.ToolCalls[0] != want || result.ToolCallID != want.ID || result.ToolName != want.Name {
		t.Errorf("read back %+v, and the result of %q", asked.ToolCalls, result.ToolCallID)
	}
	storetest.Chores(t, s)
	found, err := search.New(s).Find(t.Context(), search.Query{Key: task, Words: "found", ExceptTool: "another", Limit: 5})
	if err != nil || len(found) != 1 {
		t.Errorf("the search finds %d, %v", len(found), err)
	}
}
