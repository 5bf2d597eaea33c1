package conversation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/state"
	"parley/conversation/storetest"
)

// commandOf returns the run of a command with an effect on the conversation.
func commandOf(turn conversation.Snapshot, effect conversation.Effect) conversation.Run {
	return conversation.Run{Key: turn.Conversation.Key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Effect: effect}
}

// An /undo while a program appends takes back the turn, and keeps the program's messages.
func TestUndoDuringAnAppendTakesBackTheTurnAlone(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	storetest.Turn(t, s, task, 2)
	storetest.Accept(t, s, storetest.Say(task, 3, "/undo"))
	turn := storetest.Begin(t, s, task, 1000)
	mustAppend(t, s, "",
		conversation.Message{Role: conversation.RoleSystem, Content: "Be brief.", Tokens: 3},
		conversation.Message{Role: conversation.RoleUser, Content: "is it green?", Tokens: 3},
		conversation.Message{Role: conversation.RoleAssistant, Content: "the tests pass", Tokens: 3})
	storetest.Commit(t, s, commandOf(turn, conversation.Effect{Undo: 3}))

	storetest.Accept(t, s, storetest.Say(task, 4, "and?"))
	after := storetest.Begin(t, s, task, 1000)
	if diff := cmp.Diff([]string{"question 1", "answer 1", "is it green?", "the tests pass"}, storetest.Texts(after.History)); diff != "" {
		t.Errorf("the model sees: %s", diff)
	}
	state := after.Conversation.State
	if diff := cmp.Diff([]string{"Be brief."}, state.Instructions); diff != "" {
		t.Errorf("the model is told: %s", diff)
	}
	if state.Turns != 2 || state.Asked {
		t.Errorf("the state counts %d turns, asked %t", state.Turns, state.Asked)
	}
}

// A /retry while a program appends replaces only the answer.
func TestRetryDuringAnAppendReplacesTheAnswerAlone(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	storetest.Accept(t, s, storetest.Say(task, 2, "/retry"))
	turn := storetest.Begin(t, s, task, 1000)
	mustAppend(t, s, "", conversation.Message{Role: conversation.RoleAssistant, Content: "the tests pass", Tokens: 3})
	run := commandOf(turn, conversation.Effect{Replace: 1})
	run.Kind, run.Messages = conversation.KindAgent, []conversation.Message{{Role: conversation.RoleAssistant, Content: "a better answer", Tokens: 3}}
	storetest.Commit(t, s, run)

	storetest.Accept(t, s, storetest.Say(task, 3, "and?"))
	if diff := cmp.Diff([]string{"question 1", "the tests pass", "a better answer"}, storetest.Texts(storetest.Begin(t, s, task, 1000).History)); diff != "" {
		t.Errorf("the model sees: %s", diff)
	}
}

// A title for a session without a conversation names the one that a program begins at the same moment. If
// this commit failed, it would be repeated for ever.
func TestTitleDuringTheFirstAppendNamesThatConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(task, 1, "/title Bridges"))
	turn := storetest.Begin(t, s, task, 1000)
	begun := mustAppend(t, s, "", conversation.Message{Role: conversation.RoleUser, Content: "plan", Tokens: 3}).Conversation
	storetest.Commit(t, s, commandOf(turn, conversation.Effect{Title: "Bridges"}))
	if c, err := s.Active(t.Context(), task); err != nil || c.ID != begun.ID || c.Title != "Bridges" || c.Messages != 1 {
		t.Errorf("active is %+v, %v", c, err)
	}
}

// When a program appends to an empty conversation during a /new, its messages are archived, and the new
// conversation is empty.
func TestNewDuringAnAppendBeginsAnEmptyConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	storetest.Accept(t, s, storetest.Say(task, 2, "/new"))
	storetest.Commit(t, s, commandOf(storetest.Begin(t, s, task, 1000), conversation.Effect{Archive: true}))
	storetest.Accept(t, s, storetest.Say(task, 3, "/new Bridges"))
	turn := storetest.Begin(t, s, task, 1000)
	noted := mustAppend(t, s, "", conversation.Message{Role: conversation.RoleUser, Content: "plan", Tokens: 3}).Conversation
	storetest.Commit(t, s, commandOf(turn, conversation.Effect{Archive: true, Title: "Bridges"}))
	if c, err := s.Active(t.Context(), task); err != nil || c.ID == noted.ID || c.Title != "Bridges" || c.Messages != 0 {
		t.Errorf("active is %+v, %v", c, err)
	}
	if c, err := s.Conversation(t.Context(), noted.ID); err != nil || c.Active || c.Messages != 1 {
		t.Errorf("what was appended is in %+v, %v", c, err)
	}
}

// Instructions that are set during a run apply from the next run on, also if the run begins the
// conversation, follows an expired one, or replaces a turn.
func TestInstructionsSetDuringARunApplyFromTheNextRunOn(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *conversation.Store) conversation.Run{
		"of a new session": func(s *conversation.Store) conversation.Run {
			storetest.Accept(t, s, storetest.Say(task, 1, "hello"))
			return storetest.Answered(task, storetest.Begin(t, s, task, 1000), "hi")
		},
		"of a conversation": func(s *conversation.Store) conversation.Run {
			storetest.Turn(t, s, task, 1)
			storetest.Accept(t, s, storetest.Say(task, 2, "hello"))
			return storetest.Answered(task, storetest.Begin(t, s, task, 1000), "hi")
		},
		"after a conversation that is over": func(s *conversation.Store) conversation.Run {
			storetest.Turn(t, s, task, 1)
			storetest.Accept(t, s, storetest.Say(task, 2, "hello"))
			return storetest.Answered(task, storetest.Begin(t, s, task, 1000).Expire(state.Limits{Messages: 1}, s.Now()), "hi")
		},
		"of an edit": func(s *conversation.Store) conversation.Run {
			storetest.Turn(t, s, task, 1)
			storetest.Accept(t, s, storetest.Say(task, 2, "hello"))
			run := storetest.Answered(task, storetest.Begin(t, s, task, 1000), "hi")
			run.Effect.Undo = 1
			return run
		},
		"of a conversation that is deleted meanwhile": func(s *conversation.Store) conversation.Run {
			storetest.Turn(t, s, task, 1)
			storetest.Accept(t, s, storetest.Say(task, 2, "hello"))
			run := storetest.Answered(task, storetest.Begin(t, s, task, 1000), "hi")
			run.Window = conversation.Window{Start: 3, Cut: 100, Budget: 1000}
			if _, err := s.Delete(t.Context(), task, run.Conversation.ID); err != nil {
				t.Fatal(err)
			}
			return run
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			run := begin(s)
			if err := s.SetInstructions(t.Context(), task, "Be brief."); err != nil {
				t.Fatal(err)
			}
			storetest.Commit(t, s, run)
			c, err := s.Active(t.Context(), task)
			if err != nil || c.Messages < 2 {
				t.Fatalf("%+v, %v", c, err)
			}
			if diff := cmp.Diff([]string{"Be brief."}, c.State.Instructions); diff != "" {
				t.Errorf("the model is told: %s", diff)
			}
			if c.Window.Start > c.Messages {
				t.Errorf("the window begins at %d of %d messages", c.Window.Start, c.Messages)
			}
		})
	}
}

// The instructions of a session stay when its conversations are deleted, and are deleted with the session.
func TestInstructionsOutliveDeletedConversations(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	old, err := s.Archive(t.Context(), task, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetInstructions(t.Context(), task, "Be brief."); err != nil {
		t.Fatal(err)
	}
	for _, deleted := range []struct {
		id   string
		want []string
	}{{old.ID, []string{"Be brief."}}, {"", nil}} {
		if _, err := s.Delete(t.Context(), task, deleted.id); err != nil {
			t.Fatal(err)
		}
		c, err := s.Active(t.Context(), task)
		if diff := cmp.Diff(deleted.want, c.State.Instructions); diff != "" || err != nil {
			t.Errorf("after the deletion of %q: %s, %v", deleted.id, diff, err)
		}
	}
}
