package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/pairing"
	"parley/conversation/places"
)

// call executes one of the operator's commands beside the daemon, with the text
// on standard input.
func (o *operator) call(input string, args ...string) (out string, err error) {
	o.t.Helper()
	root := &cobra.Command{Use: "gateway", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(sessionsCommand(&o.config), historyCommand(&o.config), importCommand(&o.config), cleanupCommand(&o.config), pairCommand(&o.config), botsCommand(&o.config), verifyCommand(&o.config))
	var printed, asked strings.Builder
	root.SetIn(strings.NewReader(input))
	root.SetOut(&printed)
	root.SetErr(&asked)
	root.SetArgs(args)
	err = root.ExecuteContext(o.t.Context())
	return printed.String() + asked.String(), err
}

func (o *operator) mustCall(args ...string) (out string) {
	o.t.Helper()
	out, err := o.call("", args...)
	if err != nil {
		o.t.Fatalf("%q: %v", args, err)
	}
	return out
}

// talks takes one message through the daemon to its answer.
func (o *operator) talks(key conversation.Key, place, question, answer string) conversation.Conversation {
	o.t.Helper()
	return o.commits(key, place, question,
		conversation.Message{Role: conversation.RoleUser, Content: question, Sender: ada, Tokens: 10},
		conversation.Message{Role: conversation.RoleAssistant, Content: answer, Tokens: 10})
}

// commits takes one message through the daemon to what a run makes of it.
func (o *operator) commits(key conversation.Key, place, question string, messages ...conversation.Message) conversation.Conversation {
	o.t.Helper()
	ctx := o.t.Context()
	id := fmt.Sprint(time.Now().UnixNano())
	in := conversation.Inbound{Key: key, SourceID: id, Place: place, Text: question, Sender: ada, At: time.Now()}
	if _, err := o.daemon.Accept(ctx, nil, in); err != nil {
		o.t.Fatal(err)
	}
	turn, err := o.daemon.Begin(ctx, key, 1000)
	if err != nil {
		o.t.Fatal(err)
	}
	done, err := o.daemon.Commit(ctx, conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation, Title: question,
		Messages: messages,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return done.Conversation
}

var ada = conversation.Sender{ID: "1", Name: "Ada"}

const (
	adasChat  = conversation.Key("telegram:chat:42")
	zoesChat  = conversation.Key("discord:dm:7")
	escaping  = "\x1b[2J\x1b]0;owned\a\u202e\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d\u009b31m\u0085\x7f\b\v"
	forbidden = "\x1b\a\u202e\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d\u009b\u0085\x7f\b\v"
)

// A group that has become a supergroup keeps its session, and people know the new id.
func TestASessionIsFoundByTheKeyThatItsPlaceHasNow(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	const before, now = conversation.Key("telegram:chat:-5"), conversation.Key("telegram:chat:-1005")
	o.talks(before, "Plans", "where is the feta?", "In the oven.")
	if _, err := places.New(o.daemon).MovePlace(t.Context(), before, now, func(address string) string { return address }); err != nil {
		t.Fatal(err)
	}
	const note = "telegram:chat:-1005 belongs to the session telegram:chat:-5.\n"
	for _, args := range [][]string{{"history"}, {"sessions", "show"}, {"sessions", "export"}, {"sessions", "search", "feta", "--session"}, {"sessions", "archive"}} {
		out := o.mustCall(append(args, string(now))...)
		if said, found := strings.CutSuffix(out, note); !found || !strings.Contains(said, "feta") {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// A session that the place had before its move was known is shown until a gateway has merged it.
func TestAPlacesOwnSessionIsShownWhileItHoldsSomething(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	const before, now = conversation.Key("telegram:chat:-5"), conversation.Key("telegram:chat:-1005")
	o.talks(before, "Plans", "where is the feta?", "In the oven.")
	o.talks(now, "Plans", "where is the lamb?", "Beside it.")
	if _, err := places.New(o.daemon).MovePlace(t.Context(), before, now, func(address string) string { return address }); err != nil {
		t.Fatal(err)
	}
	if out := o.mustCall("history", string(now)); !strings.Contains(out, "lamb") {
		t.Error(out)
	}
	if _, err := places.New(o.daemon).AdoptPlace(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if out := o.mustCall("sessions", "show", string(now)); !strings.Contains(out, "2 conversations") {
		t.Error(out)
	}
}

func TestSessionsAreListedShownAndFound(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if out := o.mustCall("sessions", "list"); out != "There are no such sessions.\n" {
		t.Errorf("an empty database: %s", out)
	}
	o.talks(adasChat, "", "where is the feta?", "In the oven.")
	c := o.talks(zoesChat, "Zoë's kitchen", "and the lamb?", "Beside it.")

	want := `SESSION            PLACE           CONVERSATIONS   MESSAGES   WAITING   LAST USED
discord:dm:7       Zoë's kitchen   1               2          0         <1m ago
telegram:chat:42   -               1               2          0         <1m ago
`
	if diff := cmp.Diff(want, o.mustCall("sessions", "list")); diff != "" {
		t.Error(diff)
	}
	if out := o.mustCall("sessions", "list", "-n", "1"); strings.Count(out, "\n") != 3 || !strings.HasSuffix(out, "There are more: --limit 0 shows all.\n") {
		t.Errorf("a page: %s", out)
	}
	for _, name := range []string{string(zoesChat), c.ID} {
		out := o.mustCall("sessions", "show", name)
		for _, part := range []string{"discord:dm:7\n", "Zoë's kitchen\n", "1 conversation, 2 messages, 20 tokens", c.ID + "   and the lamb?", "active\n"} {
			if !strings.Contains(out, part) {
				t.Errorf("show %s lacks %q: %s", name, part, out)
			}
		}
	}
	if err := o.daemon.Sweep(t.Context()); err != nil { // the index trails the messages
		t.Fatal(err)
	}
	if out := o.mustCall("sessions", "search", "FETA"); !strings.Contains(out, "telegram:chat:42") || strings.Contains(out, "discord") {
		t.Errorf("found: %s", out)
	}
	if out := o.mustCall("sessions", "search", "lamb", "--session", string(adasChat)); out != "Nothing found.\n" {
		t.Errorf("found in another session: %s", out)
	}
}

// Programs read these fields: they keep their names.
func TestJSONKeepsItsFieldNames(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	c := o.talks(adasChat, "kitchen", "where is the feta?", "In the oven.")
	if err := o.daemon.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	session := []string{"active", "channel", "conversation_count", "created_at", "message_count", "place", "session", "token_count", "used_at", "waiting_count"}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"sessions", "list", "--json"}, session},
		{[]string{"sessions", "show", "--json", c.ID[:30]}, append(session, "conversations")},
		{[]string{"sessions", "search", "--json", "feta"}, []string{"at", "conversation", "role", "seq", "session", "snippet", "title", "turn"}},
		{[]string{"history", "--json", string(adasChat)}, []string{"conversations", "place", "session"}},
	} {
		if diff := cmp.Diff(slices.Sorted(slices.Values(tt.want)), fieldNames(t, o.mustCall(tt.args...))); diff != "" {
			t.Errorf("%q: %s", tt.args, diff)
		}
	}
	if out := o.mustCall("sessions", "list", "--json", "--channel", "web"); out != "[]\n" {
		t.Errorf("no sessions: %s", out)
	}
}

// fieldNames are those of an object, or of the objects of a list.
func fieldNames(t *testing.T, text string) []string {
	t.Helper()
	if !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
		t.Fatalf("%v in %s", err, text)
	}
	return slices.Sorted(maps.Keys(list[0]))
}

// Strangers choose what the operator's terminal shows.
func TestNoTextSteersTheOperatorsTerminal(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks(adasChat, escaping+"place", "question"+escaping, "answer"+escaping)
	if _, _, err := pairing.New(o.daemon).Ask(t.Context(), conversation.Account{Channel: "telegram", ID: "9" + escaping}, "7"+escaping, "Eve"+escaping); err != nil {
		t.Fatal(err)
	}
	if err := o.daemon.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"sessions", "list"}, {"sessions", "show", string(adasChat)}, {"sessions", "search", "question"}, {"history", string(adasChat)},
		{"sessions", "export", string(adasChat)}, {"sessions", "list", "--json"}, {"sessions", "export", string(adasChat), "--format", "json"},
		{"sessions", "search", "question", "--json"}, {"history", "--json", string(adasChat)}, {"cleanup", "--dry-run"}, {"pair", "list"}, {"bots", "list"}, {"verify"},
		{"sessions", "archive", string(adasChat)}, {"sessions", "delete", "--yes", string(adasChat)},
	} {
		if out := o.mustCall(args...); strings.ContainsAny(out, forbidden) {
			t.Errorf("%q: %q", args, out)
		}
	}
}

func TestUnknownNamesSuggestSimilarOnes(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks(adasChat, "", "hello", "hello")
	o.talks("cli:default", "", "hello", "hello")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"sessions", "show", "telgram:chat:42"}, "did you mean telegram:chat:42?"},
		{[]string{"sessions", "export", "cli:defualt"}, "did you mean cli:default?"},
		{[]string{"sessions", "delete", "--yes", "default"}, "did you mean cli:default?"},
		{[]string{"history", "telegram:chat:43"}, "did you mean telegram:chat:42?"},
		{[]string{"sessions", "archive", "web:nothing-like-it"}, "no such session: \"web:nothing-like-it\"; `gateway sessions list` shows"},
		{[]string{"sessions", "show", "ffff"}, `no conversation has an id that begins with "ffff"`},
		{[]string{"history", "cli:default", "--conversation", "ffff"}, `cli:default has no conversation "ffff"`},
		{[]string{"history", "cli:default", "-n", "0"}, "found 0, allowed: 1 or more"},
		{[]string{"sessions", "export", "cli:default", "--format", "pdf"}, `found "pdf", allowed: md, json, jsonl`},
		{[]string{"sessions", "list", "-n", "-1"}, "found -1, allowed: 0 or more"},
	} {
		if out, err := o.call("", tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %q, %v; want %s", tt.args, out, err, tt.want)
		}
	}
}

func TestHistoryReadsAsATranscript(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	var c conversation.Conversation
	for i := range 3 {
		c = o.talks(adasChat, "", fmt.Sprintf("question %d", i), fmt.Sprintf("answer %d", i))
	}
	day, clock := c.UpdatedAt.Format("2006-01-02 15:04"), c.UpdatedAt.Format("15:04")
	want := fmt.Sprintf(`# question 0

`+"`telegram:chat:42`"+` · 6 messages · %[1]s to %[1]s

*Earlier turns are not shown: -n 2 shows more.*

## %[2]s

**Ada** · %[3]s

question 2

**Assistant** · %[3]s

answer 2
`, day, c.UpdatedAt.Format("Monday, 2 January 2006"), clock)
	got := o.mustCall("history", string(adasChat), "-n", "1")
	if c.CreatedAt.Format("15:04") == clock { // the clock may tick in between
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if all := o.mustCall("history", string(adasChat), "--conversation", c.ID); strings.Contains(all, "Earlier") || !strings.Contains(all, "question 0\n\n**Assistant") {
		t.Errorf("all: %s", all)
	}
}

// Delete asks first, and deletes only after a yes.
func TestDeleteAsksFirst(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks(adasChat, "kitchen", "hello", "hello")
	o.talks(zoesChat, "", "hello", "hello")
	for _, answer := range []string{"", "\n", "no\n", "ye\n"} {
		if out, err := o.call(answer, "sessions", "delete", string(adasChat)); err == nil || !strings.Contains(err.Error(), "nothing was deleted") ||
			!strings.Contains(out, "Delete 1 conversation of telegram:chat:42 (kitchen) with 2 messages for good? [y/N]") {
			t.Fatalf("%q: %s, %v", answer, out, err)
		}
	}
	if out, err := o.call("Yes\n", "sessions", "delete", string(adasChat)); err != nil || !strings.HasPrefix(out, "Deleted: 1 conversation of telegram:chat:42") {
		t.Fatalf("%s, %v", out, err)
	}
	if out := o.mustCall("sessions", "list"); strings.Contains(out, string(adasChat)) || !strings.Contains(out, string(zoesChat)) {
		t.Errorf("left: %s", out)
	}
	if out := o.mustCall("sessions", "delete", "--yes", string(adasChat)); out != "telegram:chat:42 holds no conversations\n" {
		t.Errorf("deleted again: %s", out)
	}
}

func TestArchiveEndsTheActiveConversation(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	c := o.talks(adasChat, "", "hello", "hello")
	if out := o.mustCall("sessions", "archive", c.ID); !strings.HasSuffix(out, "is archived: the next message in telegram:chat:42 begins a new conversation\n") {
		t.Errorf("archived: %s", out)
	}
	if out := o.mustCall("sessions", "archive", c.ID); !strings.HasSuffix(out, "is already archived\n") {
		t.Errorf("again: %s", out)
	}
	if out := o.mustCall("sessions", "archive", string(adasChat)); out != "telegram:chat:42 has no active conversation\n" {
		t.Errorf("the session: %s", out)
	}
	if next := o.talks(adasChat, "", "hello again", "hello"); next.ID == c.ID {
		t.Error("the daemon continues an archived conversation")
	}
}

// A conversation that an open chat uses is neither archived nor deleted.
func TestSessionInUseIsNeitherArchivedNorDeleted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it starts further processes")
	}
	o := newOperator(t)
	o.talks(adasChat, "", "hello", "hello")
	pid := holdElsewhere(t, o.daemon.Path(), adasChat)
	for _, args := range [][]string{{"sessions", "archive", string(adasChat)}, {"sessions", "delete", "--yes", string(adasChat)}} {
		want := fmt.Sprintf("the session %q is in use by process %d", adasChat, pid)
		if out, err := o.call("", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v; want %s", args, out, err, want)
		}
	}
	if out := o.mustCall("history", string(adasChat)); !strings.Contains(out, "hello") {
		t.Errorf("reading needs no lock: %s", out)
	}
}

// The environment of a process that holds a session and does nothing else.
const (
	heldDatabase = "PARLEY_TEST_HELD_DATABASE"
	heldSession  = "PARLEY_TEST_HELD_SESSION"
)

// TestHoldSession is not a test: holdElsewhere runs it as another process.
func TestHoldSession(t *testing.T) {
	t.Parallel()
	path := os.Getenv(heldDatabase)
	if path == "" {
		t.Skip("runs as a process of another test")
	}
	store, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Lock(conversation.Key(os.Getenv(heldSession))); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
}

// holdElsewhere makes another process hold a session until the test ends.
func holdElsewhere(t *testing.T, database string, key conversation.Key) (pid int) {
	t.Helper()
	holder := exec.Command(os.Args[0], "-test.run=^TestHoldSession$")
	holder.Env = append(os.Environ(), heldDatabase+"="+database, heldSession+"="+string(key))
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = holder.Wait() // what it has to say was read below
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return holder.Process.Pid
}

func TestExportedFilesAreCompleteAndPrivate(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	for i := range 3 {
		o.talks(adasChat, "", fmt.Sprintf("question %d", i), "answer")
		o.mustCall("sessions", "archive", string(adasChat))
	}
	dir := t.TempDir()
	for name, want := range map[string]string{"chat.md": "# question 0", "chat.json": `{"session":"telegram:chat:42"`, "chat.jsonl": `{"type":"session","session":"telegram:chat:42",`, "chat": "# question 0"} {
		path := filepath.Join(dir, name)
		if out := o.mustCall("sessions", "export", string(adasChat), "-o", path); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %.60s, %v", name, text, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		if first, last := strings.Index(string(text), "question 0"), strings.Index(string(text), "question 2"); first > last {
			t.Errorf("%s: the oldest conversation does not stand first", name)
		}
	}
	for path, want := range map[string]string{filepath.Join(dir, "missing", "chat.md"): "there is no folder " + filepath.Join(dir, "missing"), dir: "is a folder"} {
		if _, err := o.call("", "sessions", "export", string(adasChat), "-o", path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 4 {
		t.Errorf("left behind: %v", files)
	}
}

// An export is written into a pipe or a device, and does not take its place. A link to a file stays one.
func TestExportKeepsPipesAndLinks(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks(adasChat, "", "question", "answer")
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link.md"), filepath.Join(dir, "chat.md")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that nobody waits for the other end
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o.mustCall("sessions", "export", string(adasChat), "-o", pipe)
	if line, err := bufio.NewReader(reader).ReadString('\n'); line != "# question\n" || err != nil {
		t.Errorf("the pipe has %q, %v", line, err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.WriteFile(file, []byte("before"), 0o600), os.Symlink("chat.md", link)); err != nil {
		t.Fatal(err)
	}
	o.mustCall("sessions", "export", string(adasChat), "-o", link)
	if target, err := os.Readlink(link); target != "chat.md" || err != nil {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if text, err := os.ReadFile(file); !strings.HasPrefix(string(text), "# question") || err != nil {
		t.Errorf("the file has %.60s, %v", text, err)
	}
}

// Pictures are large: they are exported only with --images, and never as Markdown.
func TestExportWritesPicturesOnRequest(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.commits(adasChat, "", "look", conversation.Message{Role: conversation.RoleUser, Content: "look", Images: []media.Image{
		{Name: "cat.png", MediaType: "image/png", Size: 3, Data: []byte("png")},
	}})
	const data = `"size":3,"data":"cG5n"`
	for _, format := range []string{"json", "jsonl"} {
		if out := o.mustCall("sessions", "export", string(adasChat), "--format", format); !strings.Contains(out, "cat.png") || strings.Contains(out, "cG5n") {
			t.Errorf("%s: %s", format, out)
		}
		if out := o.mustCall("sessions", "export", string(adasChat), "--format", format, "--images"); !strings.Contains(out, data) {
			t.Errorf("%s with pictures: %s", format, out)
		}
	}
	if _, err := o.call("", "sessions", "export", string(adasChat), "--images"); err == nil || !strings.Contains(err.Error(), "allowed: with json, jsonl") {
		t.Errorf("in Markdown: %v", err)
	}
}

func TestTheShellCompletesSessions(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks(adasChat, "kitchen", "hello", "hello")
	for _, args := range [][]string{{"sessions", "show"}, {"sessions", "delete"}, {"history"}} {
		out := o.mustCall(append(append([]string{cobra.ShellCompRequestCmd}, args...), "")...)
		if !strings.HasPrefix(out, "telegram:chat:42\tkitchen\n") {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// Shared sessions are listed, shown and exported like all others.
func TestASharedSessionIsShownByItsKey(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.talks("user:alice", "all private chats with alice", "where is the feta?", "In the oven.")
	for _, args := range [][]string{{"history", "user:alice"}, {"sessions", "list", "--channel", "user"}, {"sessions", "show", "user:alice"}, {"sessions", "export", "user:alice"}} {
		if out := o.mustCall(args...); !strings.Contains(out, "user:alice") || !strings.Contains(out, "all private chats with alice") {
			t.Errorf("%q shows %s", args, out)
		}
	}
}
