package access_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"parley/channels/access"
	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
)

func openStore(t *testing.T) *conversation.Store {
	t.Helper()
	return storetest.New(t)
}

// visitor has an id, and then usernames and ids of places.
func visitor(names ...string) access.Visitor {
	v := access.Visitor{Sender: conversation.Sender{ID: names[0]}, Private: true}
	for _, name := range names[1:] {
		if strings.HasPrefix(name, "@") {
			v.Names = append(v.Names, access.Username{Name: name, Holder: v.Sender.ID})
		} else {
			v.IDs = append(v.IDs, name)
		}
	}
	return v
}

func TestAdmitByModeAndAllowList(t *testing.T) {
	t.Parallel()
	store := openStore(t)
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
			control, err := access.New(tt.mode, tt.allow, conversation.Account{Channel: "test"}, pairing.New(store), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ok, words, err := control.Admit(t.Context(), visitor(tt.names...))
			if err != nil || words != "" || ok != tt.want {
				t.Fatalf("Admit(%q) = %v, %q, %v", tt.names, ok, words, err)
			}
		})
	}
}

func TestUnknownModesAndBlankEntriesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode  string
		allow []string
		want  string
	}{
		{"everyone", nil, `access = "everyone": allowed are "pairing", "allowlist" and "open"`},
		{"open", []string{" "}, `allow has the entry " "`},
	} {
		if _, err := access.New(tt.mode, tt.allow, conversation.Account{Channel: "test"}, nil, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%q, %q) = %v, want %s", tt.mode, tt.allow, err, tt.want)
		}
	}
}

// The log tells the operator which entry `allow` lacks, once for each stranger.
func TestSilentStrangersAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	control, err := access.New("allowlist", nil, conversation.Account{Channel: "test"}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		v := visitor("7", "@ada", "", "-100")
		v.Sender.Name, v.Private = "Ada", false
		control.Admit(t.Context(), v)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `id=7 name=Ada names="[7 @ada -100]"`) {
		t.Fatalf("logged %d times:\n%s", n, log.String())
	}
}

// A username that its owner has given up must not admit the account that takes it next.
func TestUsernameBelongsToTheFirstAccountThatUsesIt(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := openStore(t)
	newAccess := func(mode string, allow ...string) *access.Control {
		control, err := access.New(mode, allow, conversation.Account{Channel: "telegram"}, pairing.New(store), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return control
	}
	admit := func(control *access.Control, names ...string) bool {
		t.Helper()
		ok, _, err := control.Admit(t.Context(), visitor(names...))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	before := newAccess("allowlist", "@Ada", "9", "-100")
	if !admit(before, "42", "@ada") || !admit(before, "42", "@ADA") {
		t.Error("the first account with the name is refused")
	}
	after := newAccess("allowlist", "@ada", "9", "-100") // after a restart
	for range 3 {
		if admit(after, "99", "@ada") {
			t.Error("another account with the name is let in")
		}
	}
	if n := strings.Count(log.String(), "now belongs to another account"); n != 1 || !strings.Contains(log.String(), "bound_to=42 id=99") ||
		!strings.Contains(log.String(), "gateway pair revoke telegram:@ada") {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	if !admit(after, "42", "@ada") || !admit(after, "9", "@ada") || !admit(after, "99", "@ada", "-100") {
		t.Error("who is named by an id, or holds the name, is refused")
	}
	if admit(after, "42", "@ada_lovelace") {
		t.Error("an account that gave up the name is let in by it")
	}
	discord, err := access.New("allowlist", []string{"@ada"}, conversation.Account{Channel: "discord"}, pairing.New(store), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !admit(discord, "77", "@ada") {
		t.Error("a name of another channel is in the way")
	}
	if released, err := pairing.New(store).ReleaseName(t.Context(), "telegram", "@Ada"); err != nil || released.Holder != "42" {
		t.Fatalf("released %+v, %v", released, err)
	}
	if !admit(after, "99", "@ada") || admit(after, "42", "@ada") {
		t.Error("a released name is not bound anew")
	}
}

// An account whose username belongs to another account is treated as a stranger.
func TestNewHolderOfAUsernameGetsACode(t *testing.T) {
	t.Parallel()
	control, err := access.New("pairing", []string{"@ada"}, conversation.Account{Channel: "telegram"}, pairing.New(openStore(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := control.Admit(t.Context(), visitor("42", "@ada")); err != nil || !ok {
		t.Fatalf("the first: %v, %v", ok, err)
	}
	if ok, words, err := control.Admit(t.Context(), visitor("99", "@ada")); err != nil || ok || !strings.Contains(words, "gateway pair approve") {
		t.Fatalf("the next: %v, %q, %v", ok, words, err)
	}
}

// When the account that a username belongs to can't be read, the visitor is neither admitted nor refused.
func TestNothingIsDecidedWhileUsernamesCantBeRead(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	control, err := access.New("allowlist", []string{"@ada"}, conversation.Account{Channel: "telegram"}, pairing.New(store), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if ok, words, err := control.Admit(context.Background(), visitor("42", "@ada")); err == nil || ok || words != "" {
		t.Fatalf("%v, %q, %v", ok, words, err)
	}
}
