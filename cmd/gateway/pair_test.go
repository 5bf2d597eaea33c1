package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
)

// operator calls the commands on a database that a gateway has open.
type operator struct {
	t      *testing.T
	config string
	daemon *conversation.Store
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t}
	o.config = configure(t, "test.db")
	o.daemon = storetest.Open(t, filepath.Join(filepath.Dir(o.config), "test.db"))
	return o
}

// configure writes a configuration whose database lies beside it.
func configure(t *testing.T, database string) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("database = %q\n", filepath.Join(dir, database))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (o *operator) pair(args ...string) (out string, err error) {
	return pairWith(o.t, o.config, args...)
}

func pairWith(t *testing.T, configPath string, args ...string) (out string, err error) {
	var printed strings.Builder
	command := pairCommand(&configPath)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(&printed)
	command.SetArgs(args)
	err = command.ExecuteContext(t.Context())
	return printed.String(), err
}

func (o *operator) mustPair(args ...string) (out string) {
	o.t.Helper()
	out, err := o.pair(args...)
	if err != nil {
		o.t.Fatalf("pair %q: %v", args, err)
	}
	return out
}

// asks is a stranger's message to the daemon.
func (o *operator) asks(channel, user, name string) (code string) {
	o.t.Helper()
	p, _, err := pairing.New(o.daemon).Ask(o.t.Context(), conversation.Account{Channel: channel}, user, name)
	if err != nil {
		o.t.Fatal(err)
	}
	return p.Code
}

func (o *operator) wantIn(channel, user string, want bool) {
	o.t.Helper()
	if got, err := pairing.New(o.daemon).Has(o.t.Context(), conversation.Account{Channel: channel}, user); err != nil || got != want {
		o.t.Fatalf("the daemon lets %s:%s in: %v, %v; want %v", channel, user, got, err, want)
	}
}

func TestPairLetsPeopleInWhileTheGatewayRuns(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if out := o.mustPair("list"); !strings.HasPrefix(out, "There are no open codes") {
		t.Errorf("an empty list: %s", out)
	}
	code := o.asks("telegram", "42", "Ada (@ada)")
	if out := o.mustPair("list"); !strings.Contains(out, code) {
		t.Errorf("the list lacks the code: %s", out)
	}
	typed := strings.Fields(strings.ToLower(strings.ReplaceAll(code, "-", " ")))
	if out := o.mustPair(append([]string{"approve"}, typed...)...); out != "Ada (@ada) (telegram:42) has access now: the next message is answered\n" {
		t.Errorf("approved: %s", out)
	}
	o.wantIn("telegram", "42", true)
	if out := o.mustPair("revoke", "telegram:42"); out != "Ada (@ada) (telegram:42) no longer has access\n" {
		t.Errorf("revoked: %s", out)
	}
	o.wantIn("telegram", "42", false)
	o.asks("telegram", "42", "Ada")
	if out := o.mustPair("revoke", "telegram:42"); out != "Ada (telegram:42) had no access yet, and the code is void\n" {
		t.Errorf("revoked: %s", out)
	}
}

func TestPairListIsATable(t *testing.T) {
	t.Parallel()
	now := time.Now()
	list := []pairing.Pairing{
		{Channel: "telegram", Account: "7000001", UserID: "43", Name: "Bob", Code: "K7QM-2XWD", AskedAt: now.Add(-5 * time.Minute), ExpiresAt: now.Add(55 * time.Minute)},
		{Channel: "discord", UserID: "1001", Name: "Zoë", AskedAt: now.Add(-80 * time.Hour), ApprovedAt: now.Add(-73 * time.Hour)},
	}
	var out strings.Builder
	if err := printPairings(&out, list, now); err != nil {
		t.Fatal(err)
	}
	want := `CHANNEL    BOT       ID     NAME   CODE        AGE   STATE
telegram   7000001   43     Bob    K7QM-2XWD   5m    waits, code expires in 55m
discord    any       1001   Zoë    -           3d    has access
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// A flood of strangers must not hide who was let in.
func TestPairListShowsTheNewestOfMany(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var list []pairing.Pairing
	for i := range 250 {
		list = append(list, pairing.Pairing{Channel: "telegram", UserID: fmt.Sprint(i), Code: "K7QM-2XWD", AskedAt: now, ExpiresAt: now.Add(time.Hour)})
	}
	list = append(list, pairing.Pairing{Channel: "telegram", UserID: "friend", AskedAt: now, ApprovedAt: now})
	var out strings.Builder
	if err := printPairings(&out, list, now); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 104 || !strings.Contains(lines[101], "friend") || !strings.HasPrefix(lines[102], "150 more people wait") {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
}

// A stranger chooses the name that the operator's terminal shows.
func TestNamesCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.asks("telegram", "42", "\x1b[2J\x1b]0;owned\a\nAda\t\u202e"+strings.Repeat("x", 1000))
	out := o.mustPair("list")
	if strings.ContainsAny(out, "\x1b\a\t\u202e") || strings.Count(out, "\n") != 2 || len(out) > 300 {
		t.Errorf("%q", out)
	}
}

func TestPairSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"approve", "K7QM-2XWD"}, `the code "K7QM-2XWD" is unknown or has expired; ` + "`gateway pair list`"},
		{[]string{"approve"}, "requires at least 1 arg"},
		{[]string{"revoke", "42"}, `found "42", allowed: CHANNEL:USER`},
		{[]string{"revoke", "telegram:"}, `found "telegram:", allowed: CHANNEL:USER`},
		{[]string{"revoke", "telegram:42"}, `telegram has nobody with the id "42"`},
		{[]string{"revoke", "telegram:@ada"}, `the name is bound to nobody: "@ada" of telegram; ` + "`gateway pair list`"},
		{[]string{"aprove", "x"}, `unknown command "aprove"`},
	} {
		if out, err := o.pair(tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("pair %q: %q, %v; want %s", tt.args, out, err, tt.want)
		}
	}
}

func TestPairFreesNames(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if _, err := pairing.New(o.daemon).BindName(t.Context(), "telegram", "@Ada", "42"); err != nil {
		t.Fatal(err)
	}
	out := o.mustPair("list")
	if !strings.Contains(out, "CHANNEL    NAME   ID   AGE\ntelegram   @ada   42   <1m\n") {
		t.Errorf("the list lacks the name: %s", out)
	}
	if out := o.mustPair("revoke", "telegram:@ADA"); !strings.HasPrefix(out, "telegram:@ada was bound to the id 42 and is released") {
		t.Errorf("revoked: %s", out)
	}
	if bound, err := pairing.New(o.daemon).BindName(t.Context(), "telegram", "@ada", "99"); err != nil || bound != "99" {
		t.Errorf("the daemon finds the name bound to %q, %v", bound, err)
	}
}

// In the wrong folder the command must say so, and leave no empty database.
func TestPairMakesNoDatabase(t *testing.T) {
	t.Parallel()
	path := configure(t, "missing.db")
	if _, err := pairWith(t, path, "list"); err == nil || !strings.Contains(err.Error(), "there is no database") {
		t.Errorf("got %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "missing*")); len(files) != 0 {
		t.Errorf("left behind: %q", files)
	}
}

func TestTheShellCompletesCodesAndPeople(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	code := o.asks("telegram", "42", "Ada")
	for _, verb := range []string{"approve", "revoke"} {
		want := map[string]string{"approve": code, "revoke": "telegram:42"}[verb]
		out := o.mustPair(cobra.ShellCompRequestCmd, verb, "")
		if !strings.HasPrefix(out, want+"\tAda\n") {
			t.Errorf("%s: %q", verb, out)
		}
	}
}
