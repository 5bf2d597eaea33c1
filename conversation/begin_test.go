package conversation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a loop remembers of its session is what it would read anew.
func TestTheTurnAfterARunIsWhatBeginReads(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	const budget = 100
	var known Snapshot
	for id := range 30 {
		in := say(chat, id, fmt.Sprintf("question %d", id))
		in.Place = "the kitchen"
		stored, err := s.Accept(t.Context(), nil, in)
		if err != nil {
			t.Fatal(err)
		}
		turn := mustBegin(t, s, chat, budget)
		if id > 0 {
			known.Waiting = stored
			known.Waiting[0].Place = "" // of the session, not of the message
			if diff := cmp.Diff(turn, known, cmp.AllowUnexported(Inbound{}, Conversation{}, Image{})); diff != "" {
				t.Fatalf("message %d (-begin +after):\n%s", id, diff)
			}
		}
		run := answered(chat, turn, fmt.Sprintf("answer %d", id))
		run.Title = "Questions"
		run.Messages = slices.Insert(run.Messages, 1, Message{Role: RoleSystem, Content: "a hint", Tokens: 7, Internal: true})
		done, err := s.Commit(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		known = turn.After(done, budget)
	}
}

func TestAMessageEditedWhileItWaitsIsReadAsEdited(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	in := say(chat, 1, "what is the capitol of France?")
	mustAccept(t, s, in)
	key, err := s.Edit(t.Context(), Account{Channel: "telegram"}, in.SourceID, "what is the capital of France?", in.At)
	if err != nil || key != chat {
		t.Fatalf("edit: %q, %v", key, err)
	}
	turn := mustBegin(t, s, chat, 1000)
	if got := turn.Waiting[0].Text; got != "what is the capital of France?" {
		t.Fatalf("the run reads %q", got)
	}
	mustCommit(t, s, answered(chat, turn, "Paris"))
	mustAccept(t, s, say(chat, 2, "thanks"))
	if turn := mustBegin(t, s, chat, 1000); len(turn.Notes) != 0 {
		t.Fatalf("the edit was answered, and is told again: %+v", turn.Notes)
	}
}

// An edit must reach the model however it meets the run: after it, or while it
// goes on. It alone is no reason to answer.
func TestAnEditOfAnAnsweredMessageIsToldToTheNextRun(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]struct{ during, after bool }{"after the run": {after: true}, "during the run": {during: true}} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t)
			in := say(chat, 1, "the meeting is on Monday")
			edit := func() {
				if _, err := s.Edit(t.Context(), Account{Channel: "telegram"}, in.SourceID, "the meeting is on Tuesday", in.At); err != nil {
					t.Fatal(err)
				}
			}
			mustAccept(t, s, in)
			turn := mustBegin(t, s, chat, 1000)
			if meets.during {
				edit()
			}
			mustCommit(t, s, answered(chat, turn, "noted"))
			if meets.after {
				edit()
				edit() // delivered twice by the platform
			}
			if waiting, _ := s.Waiting(t.Context(), Scope{Channel: "telegram"}); len(waiting) != 0 {
				t.Fatalf("the edit alone asks for a run: %v", waiting)
			}
			mustAccept(t, s, say(chat, 2, "so when is it?"))
			turn = mustBegin(t, s, chat, 1000)
			if len(turn.Notes) != 1 || turn.Notes[0].Text != "the meeting is on Tuesday" || len(turn.Waiting) != 1 {
				t.Fatalf("notes %+v, waiting %+v", turn.Notes, turn.Waiting)
			}
			run := answered(chat, turn, "on Tuesday")
			run.Took = append(run.Took, turn.Notes...)
			mustCommit(t, s, run)
			mustAccept(t, s, say(chat, 3, "thanks"))
			if turn := mustBegin(t, s, chat, 1000); len(turn.Notes) != 0 {
				t.Fatal("the edit is told twice")
			}
		})
	}
}

func TestADeletedMessageIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "oops, wrong chat"), say(chat, 2, "hello"))
	key, err := s.Withdraw(t.Context(), Account{Channel: "telegram"}, say(chat, 1, "").SourceID)
	if err != nil || key != chat {
		t.Fatalf("withdraw: %q, %v", key, err)
	}
	turn := mustBegin(t, s, chat, 1000)
	if len(turn.Waiting) != 1 || turn.Waiting[0].Text != "hello" {
		t.Fatalf("waiting: %+v", turn.Waiting)
	}
	mustAccept(t, s, say(chat, 1, "oops, wrong chat")) // the platform lists it again
	if turn := mustBegin(t, s, chat, 1000); len(turn.Waiting) != 1 {
		t.Fatal("a withdrawn message came back")
	}
}

// The answer to a message that vanishes while it is written is not lost, nor
// are the messages that the same run answers.
func TestADeletionDuringTheRunHarmsNothing(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "one"), say(chat, 2, "two"))
	turn := mustBegin(t, s, chat, 1000)
	if _, err := s.Withdraw(t.Context(), Account{Channel: "telegram"}, say(chat, 1, "").SourceID); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, answered(chat, turn, "both"))
	if turn := mustBegin(t, s, chat, 1000); len(turn.Waiting) != 0 {
		t.Fatalf("still waiting: %+v", turn.Waiting)
	}
}

func TestAMessageEditedAndDeletedDuringItsRunIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	one := say(chat, 1, "one")
	mustAccept(t, s, one, say(chat, 2, "two"))
	turn := mustBegin(t, s, chat, 1000)
	if _, err := s.Edit(t.Context(), Account{Channel: "telegram"}, one.SourceID, "uno", one.At); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Withdraw(t.Context(), Account{Channel: "telegram"}, one.SourceID); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, answered(chat, turn, "both"))
	mustAccept(t, s, say(chat, 3, "next"))
	if turn := mustBegin(t, s, chat, 1000); len(turn.Waiting) != 1 || len(turn.Notes) != 0 {
		t.Fatalf("waiting %+v, notes %+v", turn.Waiting, turn.Notes)
	}
}

func TestImagesAreKeptWithTheirMessage(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	mustAccept(t, s, say(chat, 1, "look"))
	turn := mustBegin(t, s, chat, 1000)
	run := answered(chat, turn, "a cat")
	run.Messages[0].Images = []Image{{Name: "cat.png", MediaType: "image/png", Size: 3, Data: []byte("cat")}}
	mustCommit(t, s, run)
	mustAccept(t, s, say(chat, 2, "what was it?"))
	turn = mustBegin(t, s, chat, 1000)
	images := turn.History[0].Images
	if len(images) != 1 || images[0].Name != "cat.png" {
		t.Fatalf("images: %+v", images)
	}
	if data, err := s.ImageData(t.Context(), images[0]); err != nil || string(data) != "cat" {
		t.Fatalf("data: %q, %v", data, err)
	}
}

// What a message asks of its run is stored with it, so that the run that answers it
// after a crash honours it as well.
func TestBeginReturnsTheOptionsOfAMessage(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	in := say(chat, 1, "hello")
	in.Options = RunOptions{Instructions: "Answer in French.", MaxTokens: 50, Parameters: []byte(`{"temperature":0.3}`)}
	mustAccept(t, s, in, say(chat, 2, "and?"))
	waiting := mustBegin(t, s, chat, 1000).Waiting
	if got := waiting[0].Options; got.Instructions != "Answer in French." || got.MaxTokens != 50 || string(got.Parameters) != `{"temperature":0.3}` {
		t.Errorf("%+v", got)
	}
	if !waiting[1].Options.IsZero() {
		t.Errorf("%+v", waiting[1].Options)
	}
}
