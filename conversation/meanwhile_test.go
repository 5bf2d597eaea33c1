package conversation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// commandOf is a command that does something to the conversation of a turn.
func commandOf(turn Snapshot, effect Effect) Run {
	return Run{Key: turn.Conversation.Key, Kind: KindCommand, Status: StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Effect: effect}
}

// Somebody takes back an exchange at the moment in which a program appends: what
// the program has noted, and told the model, stays.
func TestUndoBesideAnAppendTakesBackTheExchangeAlone(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, task, 1)
	exchange(t, s, task, 2)
	mustAccept(t, s, say(task, 3, "/undo"))
	turn := mustBegin(t, s, task, 1000)
	mustAppend(t, s, "",
		Message{Role: RoleSystem, Content: "Be brief.", Tokens: 3},
		Message{Role: RoleUser, Content: "is it green?", Tokens: 3},
		Message{Role: RoleAssistant, Content: "the tests pass", Tokens: 3})
	mustCommit(t, s, commandOf(turn, Effect{Undo: 3}))

	mustAccept(t, s, say(task, 4, "and?"))
	after := mustBegin(t, s, task, 1000)
	if diff := cmp.Diff([]string{"question 1", "answer 1", "is it green?", "the tests pass"}, texts(after.History)); diff != "" {
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

// While an answer is written anew, a program appends: only the old answer is
// replaced.
func TestRetryBesideAnAppendReplacesTheAnswerAlone(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, task, 1)
	mustAccept(t, s, say(task, 2, "/retry"))
	turn := mustBegin(t, s, task, 1000)
	mustAppend(t, s, "", Message{Role: RoleAssistant, Content: "the tests pass", Tokens: 3})
	run := commandOf(turn, Effect{Replace: 1})
	run.Kind, run.Messages = KindAgent, []Message{{Role: RoleAssistant, Content: "a better answer", Tokens: 3}}
	mustCommit(t, s, run)

	mustAccept(t, s, say(task, 3, "and?"))
	if diff := cmp.Diff([]string{"question 1", "the tests pass", "a better answer"}, texts(mustBegin(t, s, task, 1000).History)); diff != "" {
		t.Errorf("the model sees: %s", diff)
	}
}

// A session without a conversation is named at the moment in which a program
// begins one: that one has the name. A commit that fails here would be tried for
// ever, and the session would be dead.
func TestTitleBesideTheFirstAppendNamesThatConversation(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(task, 1, "/title Bridges"))
	turn := mustBegin(t, s, task, 1000)
	begun := mustAppend(t, s, "", Message{Role: RoleUser, Content: "plan", Tokens: 3}).Conversation
	mustCommit(t, s, commandOf(turn, Effect{Title: "Bridges"}))
	if c, err := s.Active(t.Context(), task); err != nil || c.ID != begun.ID || c.Title != "Bridges" || c.Messages != 1 {
		t.Errorf("active is %+v, %v", c, err)
	}
}

// A new conversation is asked for in an empty one, into which a program writes at
// that moment: what it wrote is archived, and the new one is empty.
func TestNewBesideAnAppendBeginsAnEmptyConversation(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, task, 1)
	mustAccept(t, s, say(task, 2, "/new"))
	mustCommit(t, s, commandOf(mustBegin(t, s, task, 1000), Effect{Archive: true}))
	mustAccept(t, s, say(task, 3, "/new Bridges"))
	turn := mustBegin(t, s, task, 1000)
	noted := mustAppend(t, s, "", Message{Role: RoleUser, Content: "plan", Tokens: 3}).Conversation
	mustCommit(t, s, commandOf(turn, Effect{Archive: true, Title: "Bridges"}))
	if c, err := s.Active(t.Context(), task); err != nil || c.ID == noted.ID || c.Title != "Bridges" || c.Messages != 0 {
		t.Errorf("active is %+v, %v", c, err)
	}
	if c, err := s.Conversation(t.Context(), noted.ID); err != nil || c.Active || c.Messages != 1 {
		t.Errorf("what was appended is in %+v, %v", c, err)
	}
}

// Instructions that a program gives while a run goes on hold from the next run on, also
// where that run begins the conversation, follows one that is over, or replaces a turn.
func TestInstructionsGivenDuringARunHold(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *Store) Run{
		"of a new session": func(s *Store) Run {
			mustAccept(t, s, say(task, 1, "hello"))
			return answered(task, mustBegin(t, s, task, 1000), "hi")
		},
		"of a conversation": func(s *Store) Run {
			exchange(t, s, task, 1)
			mustAccept(t, s, say(task, 2, "hello"))
			return answered(task, mustBegin(t, s, task, 1000), "hi")
		},
		"after a conversation that is over": func(s *Store) Run {
			exchange(t, s, task, 1)
			mustAccept(t, s, say(task, 2, "hello"))
			return answered(task, s.Expire(mustBegin(t, s, task, 1000), Limits{Messages: 1}), "hi")
		},
		"of an edit": func(s *Store) Run {
			exchange(t, s, task, 1)
			mustAccept(t, s, say(task, 2, "hello"))
			run := answered(task, mustBegin(t, s, task, 1000), "hi")
			run.Effect.Undo = 1
			return run
		},
		"of a conversation that is deleted meanwhile": func(s *Store) Run {
			exchange(t, s, task, 1)
			mustAccept(t, s, say(task, 2, "hello"))
			run := answered(task, mustBegin(t, s, task, 1000), "hi")
			run.Window = Window{Start: 3, Cut: 100, Budget: 1000}
			if _, err := s.Delete(t.Context(), task, run.Conversation.ID); err != nil {
				t.Fatal(err)
			}
			return run
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t)
			run := begin(s)
			if err := s.SetInstructions(t.Context(), task, "Be brief."); err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, run)
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

// The instructions of a session wait for its next conversation while others are deleted;
// they go with the session.
func TestInstructionsOutliveDeletedConversations(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, task, 1)
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
