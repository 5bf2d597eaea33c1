package metadata_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/metadata"
	"parley/conversation/storetest"
)

// Programs find their sessions and messages by metadata, and no others.
func TestSessionsAndMessagesAreFilteredByMetadata(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for key, metadata := range map[conversation.Key]metadata.Object{
		"api:1": `{"agent": "planner", "iteration": 3, "done": true}`,
		"api:2": `{"agent": "planner", "iteration": 30, "done": false}`,
		"api:3": `{"agent": "\"planner\"", "nested": {"agent": "planner"}}`,
		"api:4": "",
	} {
		if err := s.SetMetadata(t.Context(), key, "", metadata); err != nil {
			t.Fatal(err)
		}
		_, err := s.Append(t.Context(), key, "", conversation.Message{Role: conversation.RoleUser, Content: string(key), Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		filter metadata.Filter
		want   []string
	}{
		{nil, []string{"api:1", "api:2", "api:3", "api:4"}},
		{metadata.Filter{"agent": "planner"}, []string{"api:1", "api:2"}},
		{metadata.Filter{"agent": "planner", "iteration": "3"}, []string{"api:1"}},
		{metadata.Filter{"done": "false"}, []string{"api:2"}},
		{metadata.Filter{"done": "1"}, nil},
		{metadata.Filter{"agent": `"planner"`}, []string{"api:3"}},
		{metadata.Filter{"nested": "planner"}, nil},
		{metadata.Filter{"$.agent": "planner"}, nil},
		{metadata.Filter{"' OR 1 --": "x"}, nil},
	} {
		sessions, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Metadata: tt.filter})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, session := range sessions {
			found[string(session.Key)] = true
		}
		want := map[string]bool{}
		for _, key := range tt.want {
			want[key] = true
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("sessions with %v: %s", tt.filter, diff)
		}
		for n := range 4 {
			key := fmt.Sprintf("api:%d", n+1)
			c, _ := s.Active(t.Context(), conversation.Key(key))
			page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, Metadata: tt.filter})
			if err != nil || (len(page.Messages) == 1) != want[key] {
				t.Errorf("messages of %s with %v: %d, %v", key, tt.filter, len(page.Messages), err)
			}
		}
	}
}

// A program notes a NUL or half a character. PostgreSQL can't compare such a text: no program could list sessions by metadata any more.
func TestOddCharactersInMetadataHideNothing(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const nul, high, low = `\u0000`, `\ud83d`, `\ude00` // the latter two make one character
	for i, given := range []metadata.Object{
		`{"agent": "planner"}`,
		`{"agent": "planner", "odd": "` + nul + `"}`,
		`{"agent": "planner", "` + nul + `": 1}`,
		`{"agent": "planner", "odd": "` + high + `", "odder": "` + low + high + `x"}`,
		`{"agent": "planner", "whole": "` + high + low + `", "path": "C:\\u0000"}`,
	} {
		if err := s.SetMetadata(t.Context(), conversation.Key(fmt.Sprint("api:", i)), "", given); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		filter metadata.Filter
		want   int
	}{{metadata.Filter{"agent": "planner"}, 5}, {metadata.Filter{"whole": "😀", "path": `C:\u0000`}, 1}, {metadata.Filter{"odd": "\uFFFD"}, 2}} {
		list, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Metadata: tt.filter})
		if err != nil || len(list) != tt.want {
			t.Errorf("sessions with %v: %d, %v", tt.filter, len(list), err)
		}
	}
}
