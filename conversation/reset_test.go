package conversation_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/storetest"
)

// A reset archives the conversation. The new one has the same instructions in the same order, and the session
// keeps its metadata.
func TestResetKeepsTheInstructions(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if err := s.SetMetadata(t.Context(), task, "", `{"agent": "builder"}`); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, "key",
		conversation.Message{Role: conversation.RoleSystem, Content: "Build bridges.", Tokens: 5, Metadata: `{"by":"planner"}`},
		conversation.Message{Role: conversation.RoleUser, Content: "budget: 100", Internal: true, Tokens: 4})
	storetest.Turn(t, s, task, 1)
	mustAppend(t, s, "", conversation.Message{Role: conversation.RoleSystem, Content: "Hurry.", Tokens: 2}) // came later
	old, _ := s.Active(t.Context(), task)

	fresh, err := s.Reset(t.Context(), task, true)
	if err != nil || fresh.ID == old.ID || !fresh.Active || fresh.Messages != 2 || fresh.Tokens != 9 {
		t.Fatalf("%+v, %v", fresh, err)
	}
	if diff := cmp.Diff([]string{"Build bridges.", "Hurry."}, fresh.State.Instructions); diff != "" {
		t.Errorf("the model is told: %s", diff)
	}
	page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: fresh.ID, View: conversation.ViewAll})
	if err != nil || len(page.Messages) != 2 || page.Messages[0].Role != conversation.RoleSystem || page.Messages[0].Metadata != `{"by":"planner"}` || page.Messages[1].Content != "budget: 100" || !page.Messages[1].Internal {
		t.Errorf("it begins with %+v, %v", page, err)
	}
	if again, err := s.Reset(t.Context(), task, true); err != nil || again.ID != fresh.ID {
		t.Errorf("a reset of what has nothing else made %s, %v", again.ID, err)
	}
	if c, err := s.Conversation(t.Context(), old.ID); err != nil || c.Active || c.Messages != 5 {
		t.Errorf("the old one: %+v, %v", c, err)
	}
	bare, err := s.Reset(t.Context(), task, false)
	if err != nil || bare.Messages != 0 || len(bare.State.Instructions) != 0 {
		t.Errorf("without: %+v, %v", bare, err)
	}
	session, err := catalog.New(s).Session(t.Context(), task)
	if err != nil || session.Metadata != `{"agent":"builder"}` || session.Conversations != 2 {
		t.Errorf("the session: %+v, %v", session, err)
	}
	storetest.Turn(t, s, task, 2)
	if now, _ := s.Active(t.Context(), task); now.ID != bare.ID || now.Messages != 2 {
		t.Errorf("the active conversation is %+v", now)
	}
	if _, err := s.Reset(t.Context(), "api:unknown", true); !errors.Is(err, conversation.ErrNoSession) {
		t.Errorf("an unknown session: %v", err)
	}
}

// A run that was under way during a reset is committed, in the conversation that it began in.
func TestRunUnderWayAnswersAfterAReset(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	storetest.Accept(t, s, storetest.Say(task, 2, "more"))
	run := storetest.Answered(task, storetest.Begin(t, s, task, 1000), "more of it")
	if _, err := s.Reset(t.Context(), task, false); err != nil {
		t.Fatal(err)
	}
	storetest.Commit(t, s, run)
	if c, err := s.Conversation(t.Context(), run.Conversation.ID); err != nil || c.Messages != 4 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Conversations are renamed and archived by their ids, but not with another session's key. A run that is
// under way does not undo a rename.
func TestConversationsAreChangedByTheirIDs(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Turn(t, s, task, 1)
	storetest.Accept(t, s, storetest.Say(task, 2, "more"))
	run := storetest.Answered(task, storetest.Begin(t, s, task, 1000), "more of it")
	run.Title = "a title that the run made up"
	c, err := s.Rename(t.Context(), conversation.Renaming{Key: task, ID: run.Conversation.ID, Title: "Bridges\x00"})
	if err != nil || c.Title != "Bridges\uFFFD" {
		t.Fatalf("%+v, %v", c, err)
	}
	storetest.Commit(t, s, run)
	if c, err := s.Conversation(t.Context(), c.ID); err != nil || c.Title != "Bridges\uFFFD" || c.Messages != 4 {
		t.Errorf("after the run: %+v, %v", c, err)
	}
	for range 2 {
		if c, err := s.Archive(t.Context(), task, c.ID); err != nil || c.Active {
			t.Errorf("%+v, %v", c, err)
		}
	}
	_, renamed := s.Rename(t.Context(), conversation.Renaming{Key: storetest.Chat, ID: c.ID, Title: "mine"})
	_, archived := s.Archive(t.Context(), storetest.Chat, c.ID)
	_, unknown := s.Conversation(t.Context(), c.ID[:20])
	for _, err := range []error{renamed, archived, unknown} {
		if !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("another session's: %v", err)
		}
	}
}

// Deleting a session deletes its metadata and instructions.
func TestDeletedSessionLosesItsMetadataAndInstructions(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if err := s.SetMetadata(t.Context(), task, "", `{"secret":1}`); err != nil {
		t.Fatal(err)
	}
	storetest.Turn(t, s, task, 1)
	if err := s.SetInstructions(t.Context(), task, "Answer in rhymes."); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), task, ""); err != nil {
		t.Fatal(err)
	}
	if session, err := catalog.New(s).Session(t.Context(), task); err != nil || session.Metadata != "" {
		t.Errorf("%+v, %v", session, err)
	}
	if c, err := s.Active(t.Context(), task); err != nil || len(c.State.Instructions) > 0 {
		t.Errorf("the instructions are still %q, %v", c.State.Instructions, err)
	}
	if err := s.SetMetadata(t.Context(), task, "", `[]`); !errors.Is(err, conversation.ErrInvalid) {
		t.Errorf("a list: %v", err)
	}
}
