package channels_test

import (
	"strings"
	"testing"

	"parley/channels"
)

func TestAccess(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  string
		allow []string
		names []string
		want  bool
	}{
		"open lets everybody in":      {"open", nil, []string{"7"}, true},
		"nobody by default":           {"", nil, []string{"7"}, false},
		"by id":                       {"allowlist", []string{"7"}, []string{"7", "@ada"}, true},
		"by group id":                 {"allowlist", []string{"-100"}, []string{"7", "", "-100"}, true},
		"by username, in any case":    {"allowlist", []string{"@Ada"}, []string{"7", "@aDA"}, true},
		"username is not an id":       {"allowlist", []string{"@7"}, []string{"7"}, false},
		"star":                        {"allowlist", []string{"*"}, []string{"7"}, true},
		"others stay out":             {"allowlist", []string{"7", "@ada"}, []string{"8", "@bob"}, false},
		"no username matches nothing": {"allowlist", []string{"7"}, []string{"", "8"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			access, err := channels.NewAccess(tt.mode, tt.allow)
			if err != nil {
				t.Fatal(err)
			}
			if got := access.Allows(tt.names...); got != tt.want {
				t.Fatalf("Allows(%q) = %v", tt.names, got)
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
		{"everyone", nil, `access = "everyone": allowed are "open" and "allowlist"`},
		{"open", []string{" "}, `allow has the entry " "`},
	} {
		if _, err := channels.NewAccess(tt.mode, tt.allow); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewAccess(%q, %q) = %v, want %s", tt.mode, tt.allow, err, tt.want)
		}
	}
}
