package channels_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"parley/channels"
	"parley/conversation"
)

func TestAccess(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  string
		allow []string
		names []string
		want  bool
	}{
		"open lets everybody in":      {"open", nil, []string{"7"}, true},
		"nobody on an empty list":     {"allowlist", nil, []string{"7"}, false},
		"by id":                       {"allowlist", []string{"7"}, []string{"7", "@ada"}, true},
		"by group id":                 {"allowlist", []string{"-100"}, []string{"7", "", "-100"}, true},
		"by username, in any case":    {"allowlist", []string{"@Ada"}, []string{"7", "@aDA"}, true},
		"username is not an id":       {"allowlist", []string{"@7"}, []string{"7"}, false},
		"star":                        {"allowlist", []string{"*"}, []string{"7"}, true},
		"others stay out":             {"allowlist", []string{"7", "@ada"}, []string{"8", "@bob"}, false},
		"no username matches nothing": {"allowlist", []string{"7"}, []string{"8", ""}, false},
		"listed beside pairing":       {"pairing", []string{"7"}, []string{"7"}, true},
		"star beside pairing":         {"", []string{"*"}, []string{"7"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			access, err := channels.NewAccess(tt.mode, tt.allow, "test", nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ok, words, err := access.Admit(t.Context(), conversation.Sender{ID: tt.names[0]}, true, tt.names[1:]...)
			if err != nil || words != "" || ok != tt.want {
				t.Fatalf("Admit(%q) = %v, %q, %v", tt.names, ok, words, err)
			}
		})
	}
}

func TestAccessRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, tt := range []struct {
		mode  string
		allow []string
		want  string
	}{
		{"everyone", nil, `access = "everyone": allowed are "pairing", "allowlist" and "open"`},
		{"open", []string{" "}, `allow has the entry " "`},
	} {
		if _, err := channels.NewAccess(tt.mode, tt.allow, "test", nil, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewAccess(%q, %q) = %v, want %s", tt.mode, tt.allow, err, tt.want)
		}
	}
}

// The operator must find in the log what allow would have to hold, and not be
// drowned in it.
func TestSilentStrangersAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	access, err := channels.NewAccess("allowlist", nil, "test", nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		access.Admit(t.Context(), conversation.Sender{ID: "7", Name: "Ada"}, false, "@ada", "", "-100")
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `id=7 name=Ada names="[7 @ada -100]"`) {
		t.Fatalf("logged %d times:\n%s", n, log.String())
	}
}
