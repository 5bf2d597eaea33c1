package tools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/grouptalk"
	"parley/conversation/storetest"
)

func TestGroupTalkShowsPagesAndWords(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for n := range 40 {
		in := storetest.Say("telegram:chat:-1", n, fmt.Sprintf("message %d\nof many", n))
		in.Aside, in.Sender = true, conversation.Sender{ID: "1", Name: "Ada"}
		if n == 5 {
			in.Text = "The picnic is on Sunday"
		}
		storetest.Accept(t, s, in)
	}
	r, err := NewRegistry(GroupTalk(grouptalk.New(s)))
	if err != nil {
		t.Fatal(err)
	}
	call := func(key conversation.Key, arguments string) string {
		got, err := r.Call(WithSession(t.Context(), Session{Key: key}), GroupTalkName, arguments, time.Minute)
		if err != nil {
			return "error: " + err.Error()
		}
		return got.Text
	}
	for arguments, want := range map[string]string{
		`{}`:                             "Messages 1 to 30 of 40",
		`{"offset":30}`:                  "Ada: The picnic is on Sunday",
		`{"offset":40}`:                  "There are only 40 messages",
		`{"query":"picnics on sundays"}`: "Messages 1 to 1 of 1",
		`{"query":"elephants"}`:          "has these words",
		`{"query":1}`:                    "error: group_talk takes an object",
		`{"offset":-1}`:                  "error: group_talk takes an object",
	} {
		if got := call("telegram:chat:-1", arguments); !strings.Contains(got, want) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	if got := call("telegram:chat:-1", `{}`); !strings.HasSuffix(got, "Ada: message 39 of many\n10 more with offset 30.\n") {
		t.Error(got)
	}
	if got := call("telegram:chat:-2", `{"query":"picnic"}`); strings.Contains(got, "Sunday") {
		t.Errorf("another session's: %s", got)
	}
}
