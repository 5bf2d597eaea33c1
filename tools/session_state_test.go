package tools

import (
	"strings"
	"testing"
	"time"
)

// A model that sends an invalid record is told what is allowed.
func TestSessionStateExplainsInvalidArguments(t *testing.T) {
	t.Parallel()
	r := registry(t, SessionState())
	for arguments, want := range map[string]string{
		`{"kind":"constraint","text":"never use an ORM"}`: "Kept.",
		`{"kind":"decision","text":"use SQL"}`:            "Kept.",
		`{"kind":"withdraw","text":"use SQL"}`:            "Withdrawn.",
		`{"kind":"wish","text":"cake"}`:                   "allowed are constraint, decision, withdraw",
		`{"kind":"decision","text":" "}`:                  "needs a text",
		`{"kind":1}`:                                      "takes an object with kind and text",
	} {
		if got, _ := r.Call(t.Context(), SessionStateName, arguments, time.Minute); !strings.Contains(got.Text, want) {
			t.Errorf("%s: %q", arguments, got.Text)
		}
	}
}
