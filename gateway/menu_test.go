package gateway

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Platforms that offer choices offer exactly what /new and /state understand.
func TestMenuHasTheChoicesOfCommands(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, c := range menu() {
		for _, o := range c.Options {
			if len(o.Choices) > 0 {
				got[c.Name+" "+o.Name] = o.Choices
			}
		}
	}
	want := map[string][]string{
		"approve always":      {"always"},
		"deny cancel":         {"cancel"},
		"instructions change": {"set", "clear"},
		"new keep":            {"keep rules", "keep decisions", "keep nothing"},
		"reminders change":    {"delete", "timezone"},
		"state change":        {"add rule", "add decision", "strike"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
