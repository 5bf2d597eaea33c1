package conversation_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/storetest"
)

// The snapshot that a loop keeps after a run equals the one that it would read.
func TestSnapshotAfterARunEqualsWhatBeginReads(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const budget = 100
	var known conversation.Snapshot
	for id := range 30 {
		in := storetest.Say(storetest.Chat, id, fmt.Sprintf("question %d", id))
		in.Place = "the kitchen"
		stored, err := s.Accept(t.Context(), nil, in)
		if err != nil {
			t.Fatal(err)
		}
		turn := storetest.Begin(t, s, storetest.Chat, budget)
		if id > 0 {
			known.Waiting = stored
			known.Waiting[0].Place = "" // of the session, not of the message
			if diff := cmp.Diff(turn, known, cmp.AllowUnexported(conversation.Inbound{}, conversation.Conversation{}, media.Image{})); diff != "" {
				t.Fatalf("message %d (-begin +after):\n%s", id, diff)
			}
		}
		run := storetest.Answered(storetest.Chat, turn, fmt.Sprintf("answer %d", id))
		run.Title = "Questions"
		run.Messages = slices.Insert(run.Messages, 1, conversation.Message{Role: conversation.RoleSystem, Content: "a hint", Tokens: 7, Internal: true})
		done, err := s.Commit(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		known = turn.After(done, budget)
	}
}

func TestRunReadsTheEditOfAWaitingMessage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	in := storetest.Say(storetest.Chat, 1, "what is the capitol of France?")
	storetest.Accept(t, s, in)
	key, err := s.Edit(t.Context(), conversation.Account{Channel: "telegram"}, in.SourceID, "what is the capital of France?", in.At)
	if err != nil || key != storetest.Chat {
		t.Fatalf("edit: %q, %v", key, err)
	}
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if got := turn.Waiting[0].Text; got != "what is the capital of France?" {
		t.Fatalf("the run reads %q", got)
	}
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "Paris"))
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "thanks"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Notes) != 0 {
		t.Fatalf("the edit was answered, and is reported again: %+v", turn.Notes)
	}
}

// An edit of an answered message reaches the model with the next run, also if it comes
// during the run. An edit alone starts no run.
func TestEditOfAnAnsweredMessageIsInTheNextRun(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]struct{ during, after bool }{"after the run": {after: true}, "during the run": {during: true}} {
		t.Run(name, func(t *testing.T) {
			s := storetest.New(t)
			in := storetest.Say(storetest.Chat, 1, "the meeting is on Monday")
			edit := func() {
				if _, err := s.Edit(t.Context(), conversation.Account{Channel: "telegram"}, in.SourceID, "the meeting is on Tuesday", in.At); err != nil {
					t.Fatal(err)
				}
			}
			storetest.Accept(t, s, in)
			turn := storetest.Begin(t, s, storetest.Chat, 1000)
			if meets.during {
				edit()
			}
			storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "noted"))
			if meets.after {
				edit()
				edit() // delivered twice by the platform
			}
			if waiting, _ := s.Waiting(t.Context(), conversation.Scope{Channel: "telegram"}); len(waiting) != 0 {
				t.Fatalf("the edit alone asks for a run: %v", waiting)
			}
			storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "so when is it?"))
			turn = storetest.Begin(t, s, storetest.Chat, 1000)
			if len(turn.Notes) != 1 || turn.Notes[0].Text != "the meeting is on Tuesday" || len(turn.Waiting) != 1 {
				t.Fatalf("notes %+v, waiting %+v", turn.Notes, turn.Waiting)
			}
			run := storetest.Answered(storetest.Chat, turn, "on Tuesday")
			run.Took = append(run.Took, turn.Notes...)
			storetest.Commit(t, s, run)
			storetest.Accept(t, s, storetest.Say(storetest.Chat, 3, "thanks"))
			if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Notes) != 0 {
				t.Fatal("the edit is reported twice")
			}
		})
	}
}

func TestADeletedMessageIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "oops, wrong chat"), storetest.Say(storetest.Chat, 2, "hello"))
	key, err := s.Withdraw(t.Context(), conversation.Account{Channel: "telegram"}, storetest.Say(storetest.Chat, 1, "").SourceID)
	if err != nil || key != storetest.Chat {
		t.Fatalf("withdraw: %q, %v", key, err)
	}
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if len(turn.Waiting) != 1 || turn.Waiting[0].Text != "hello" {
		t.Fatalf("waiting: %+v", turn.Waiting)
	}
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "oops, wrong chat")) // the platform lists it again
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 1 {
		t.Fatal("a withdrawn message came back")
	}
}

// A message that is deleted during its run is settled, and so are the other messages of the run.
func TestMessageDeletedDuringItsRunIsSettled(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "one"), storetest.Say(storetest.Chat, 2, "two"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "telegram"}, storetest.Say(storetest.Chat, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "both"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 0 {
		t.Fatalf("still waiting: %+v", turn.Waiting)
	}
}

func TestAMessageEditedAndDeletedDuringItsRunIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	one := storetest.Say(storetest.Chat, 1, "one")
	storetest.Accept(t, s, one, storetest.Say(storetest.Chat, 2, "two"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	if _, err := s.Edit(t.Context(), conversation.Account{Channel: "telegram"}, one.SourceID, "uno", one.At); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Withdraw(t.Context(), conversation.Account{Channel: "telegram"}, one.SourceID); err != nil {
		t.Fatal(err)
	}
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "both"))
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 3, "next"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000); len(turn.Waiting) != 1 || len(turn.Notes) != 0 {
		t.Fatalf("waiting %+v, notes %+v", turn.Waiting, turn.Notes)
	}
}

func TestImagesAreKeptWithTheirMessage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "look"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	run := storetest.Answered(storetest.Chat, turn, "a cat")
	run.Messages[0].Images = []media.Image{{Name: "cat.png", MediaType: "image/png", Size: 3, Data: []byte("cat")}}
	storetest.Commit(t, s, run)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "what was it?"))
	turn = storetest.Begin(t, s, storetest.Chat, 1000)
	images := turn.History[0].Images
	if len(images) != 1 || images[0].Name != "cat.png" {
		t.Fatalf("images: %+v", images)
	}
	if data, err := s.ImageData(t.Context(), images[0]); err != nil || string(data) != "cat" {
		t.Fatalf("data: %q, %v", data, err)
	}
}

// The options of a message are stored with it, so that a run after a crash uses them, too.
func TestBeginReturnsTheOptionsOfAMessage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	in := storetest.Say(storetest.Chat, 1, "hello")
	in.Options = conversation.RunOptions{Instructions: "Answer in French.", MaxTokens: 50, Parameters: []byte(`{"temperature":0.3}`)}
	storetest.Accept(t, s, in, storetest.Say(storetest.Chat, 2, "and?"))
	waiting := storetest.Begin(t, s, storetest.Chat, 1000).Waiting
	if got := waiting[0].Options; got.Instructions != "Answer in French." || got.MaxTokens != 50 || string(got.Parameters) != `{"temperature":0.3}` {
		t.Errorf("%+v", got)
	}
	if !waiting[1].Options.IsZero() {
		t.Errorf("%+v", waiting[1].Options)
	}
}
