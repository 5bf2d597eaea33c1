package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/cli/clitest"
	"parley/conversation"
	"parley/plaintext"
)

// patience is how long a test waits for what must come; nothing depends on it but failing.
const patience = 20 * time.Second

// desk is a user at a terminal, and what the gateway has stored.
type desk struct {
	t       *testing.T
	vt      *clitest.Screen
	keys    *io.PipeWriter
	channel *Channel
	ended   chan error
	cancel  context.CancelFunc

	mu     sync.Mutex
	stored []conversation.Inbound
	refuse error
}

func sit(t *testing.T, o Options) *desk {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	if o.Intro == nil {
		o.Intro = []string{"ready"}
	}
	in, keys := io.Pipe()
	d := &desk{t: t, vt: clitest.NewScreen(60, 20), keys: keys, ended: make(chan error, 1)}
	o.In, o.Out, o.Size, o.Interactive = in, d.vt, d.vt.Size, true
	var err error
	if d.channel, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	go func() { d.ended <- d.channel.Run(ctx, d.accept) }()
	d.sees(o.Intro[len(o.Intro)-1] + "\n›")
	t.Cleanup(func() {
		cancel()
		keys.Close()
		<-d.channel.gone
	})
	return d
}

func (d *desk) accept(_ context.Context, _ []conversation.Cursor, batch ...conversation.Inbound) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	d.stored = append(d.stored, batch...)
	return nil
}

func (d *desk) refuses(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

func (d *desk) types(keys string) {
	d.t.Helper()
	if _, err := io.WriteString(d.keys, keys); err != nil {
		d.t.Fatal(err)
	}
}

// waitsFor fails when what never becomes true.
func (d *desk) waitsFor(what string, ok func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("still not: %s\nscreen:\n%s", what, d.vt.Text())
		}
	}
}

func (d *desk) sees(want string) {
	d.t.Helper()
	d.waitsFor(want, func() bool { return strings.Contains(d.vt.Text(), want) })
}

// screenIs waits until the terminal, with all that has scrolled, shows these lines.
func (d *desk) screenIs(want ...string) {
	d.t.Helper()
	all := strings.Join(want, "\n")
	d.waitsFor("\n"+all, func() bool { return d.vt.Text() == all })
}

// inbound waits for the n-th message stored, from 0.
func (d *desk) inbound(n int) conversation.Inbound {
	d.t.Helper()
	var m conversation.Inbound
	d.waitsFor(fmt.Sprintf("message %d stored", n), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.stored) > n {
			m = d.stored[n]
			return true
		}
		return false
	})
	return m
}

func (d *desk) answers(address, text string) {
	d.t.Helper()
	delivery := conversation.Delivery{ID: 1, Key: d.channel.Key(), Address: address, Text: text}
	for _, p := range d.channel.Split(delivery) {
		if _, err := d.channel.Send(d.t.Context(), delivery, p); err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *desk) leaves() {
	d.t.Helper()
	select {
	case err := <-d.ended:
		if err != nil {
			d.t.Fatalf("Run ended with %v, want nil", err)
		}
	case <-time.After(patience):
		d.t.Fatalf("Run goes on\nscreen:\n%s", d.vt.Text())
	}
}

func TestAnswerIsRendered(t *testing.T) {
	d := sit(t, Options{Session: "work"})
	d.types("hello\r")
	m := d.inbound(0)
	if m.Key != "cli:work" || m.Text != "hello" || m.SourceID == "" {
		t.Errorf("stored %+v", m)
	}
	d.screenIs("ready", "› hello", "thinking … Ctrl-C stops", "›")
	d.answers(m.Address, "Some **bold** words.\n\n- one\n- two")
	d.screenIs("ready", "› hello", "Some bold words.", "• one", "• two", "›")
}

func TestLeftoverReplyHasHeading(t *testing.T) {
	d := sit(t, Options{})
	d.answers("an id of yesterday", "late")
	d.screenIs("ready", "(from before)", "late", "›")
}

func TestTypingWhileAnswerStreams(t *testing.T) {
	d := sit(t, Options{})
	d.types("first\r")
	first := d.inbound(0)
	d.channel.Preview(first.Address, "Once upon")
	d.sees("Once upon")
	d.types("next quest")
	d.sees("› next quest")
	d.channel.Preview(first.Address, "Once upon a time")
	d.screenIs("ready", "› first", "Once upon a time", "› next quest")
	d.types("ion 日本\r")
	second := d.inbound(1)
	if second.Text != "next question 日本" {
		t.Errorf("stored %q", second.Text)
	}
	d.screenIs("ready", "› first", "Once upon a time", d.waiting("next question 日本"), "›")
	d.answers(first.Address, "Once upon a time.")
	d.sees("thinking")
	d.answers(second.Address, "The end.")
	got := d.vt.Text()
	if want := "› first\nOnce upon a time.\n› next question"; !strings.Contains(got, want) {
		t.Errorf("screen:\n%s\nwant in it:\n%s", got, want)
	}
	if !strings.HasSuffix(got, "The end.\n›") || strings.Contains(got, "waits") {
		t.Errorf("screen:\n%s", got)
	}
}

// waiting is how the terminal shows a message that waits.
func (d *desk) waiting(text string) string {
	v := clitest.NewScreen(60, 2)
	_, _ = v.Write([]byte("› " + text + "  (waits)"))
	return v.Text()
}

func TestLongAnswerScrollsOnceAndWhole(t *testing.T) {
	d := sit(t, Options{})
	d.types("tell\r")
	m := d.inbound(0)
	var text strings.Builder
	var want []string
	for i := range 30 {
		line := fmt.Sprintf("Paragraph %d.", i)
		want = append(want, line)
		text.WriteString(line + "\n\n")
		d.channel.Preview(m.Address, text.String())
		d.sees(line)
	}
	if !strings.Contains(d.vt.Text(), "Paragraph 0.") {
		t.Error("the beginning can't be read while the end is written")
	}
	d.types("mean")
	d.answers(m.Address, text.String())
	d.types("while")
	d.screenIs(append(append([]string{"ready", "› tell"}, want...), "› meanwhile")...)
}

func TestAnswerThatBeganAnewIsShownWhole(t *testing.T) {
	d := sit(t, Options{})
	d.types("tell\r")
	m := d.inbound(0)
	d.channel.Preview(m.Address, strings.Repeat("void\n\n", 30)+"last")
	d.sees("last")
	d.answers(m.Address, "Another answer.")
	d.sees("(the whole answer)\nAnother answer.\n›")
}

// How Ctrl-C ends an answer is tested with the whole gateway: see faulttest.
func TestCtrlCAtRestLeavesAtTheSecondTime(t *testing.T) {
	d := sit(t, Options{})
	d.types("\x03")
	d.sees("press Ctrl-C again to leave\n›")
	d.types("x\x7f")
	d.screenIs("ready", "›")
	d.types("\x03\x03")
	d.leaves()
}

func TestCtrlCTwiceWhileAnsweringLeaves(t *testing.T) {
	d := sit(t, Options{})
	d.types("hello\r")
	m := d.inbound(0)
	d.types("\x03\x03")
	d.leaves()
	d.sees("The answer is not there yet.")
	d.answers(m.Address, "There it is.")
	d.sees("There it is.")
}

func TestCtrlDLeaves(t *testing.T) {
	d := sit(t, Options{})
	d.types("\x04")
	d.leaves()
}

func TestHalfTypedLineIsNotSentAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(*desk){
		"shutdown": func(d *desk) { d.cancel() },
		"hang-up":  func(d *desk) { d.keys.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			d := sit(t, Options{})
			d.types("do not send this")
			d.sees("this")
			end(d)
			d.leaves()
			if len(d.stored) > 0 {
				t.Errorf("stored %q", d.stored[0].Text)
			}
		})
	}
}

func TestMessageThatIsNotStoredComesBack(t *testing.T) {
	d := sit(t, Options{})
	d.refuses(errors.New("database or disk is full"))
	d.types("precious\r")
	d.sees("The message was not stored: database or disk is full\nIt is back in the line: Enter sends it again.\n› precious")
	d.refuses(nil)
	d.types("\r")
	if m := d.inbound(0); m.Text != "precious" {
		t.Errorf("stored %q", m.Text)
	}
}

func TestSeveralLinesInOneMessage(t *testing.T) {
	twenty := strings.TrimSuffix(strings.Repeat("a line\n", 20), "\n")
	for name, tc := range map[string]struct{ keys, want string }{
		"backslash":   {"one\\\rtwo\r", "one\ntwo"},
		"quotes":      {"\"\"\"\rone\rtwo\r\"\"\"\r", "one\ntwo"},
		"alt-enter":   {"one\x1b\rtwo\r", "one\ntwo"},
		"short paste": {"see \x1b[200~one\r\ttwo\x1b[201~!\r", "see one\n\ttwo!"},
		"long paste":  {"see \x1b[200~" + strings.ReplaceAll(twenty, "\n", "\r") + "\x1b[201~!\r", "see " + twenty + "!"},
		"huge paste":  {"\x1b[200~" + strings.Repeat("x", 1<<20) + "\x1b[201~\r", strings.Repeat("x", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			d := sit(t, Options{})
			d.types(tc.keys)
			if m := d.inbound(0); m.Text != tc.want {
				t.Errorf("stored %q, want %q", shorten(m.Text, 30, 300), shorten(tc.want, 30, 300))
			}
		})
	}
}

func TestLongPasteIsALabel(t *testing.T) {
	d := sit(t, Options{})
	d.types("see \x1b[200~" + strings.Repeat("a line\r", 20) + "\x1b[201~ please")
	d.screenIs("ready", "› see [paste 1: 20 lines] please")
}

func TestHistoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "history")
	d := sit(t, Options{HistoryPath: path})
	d.types("one\\\rtwo\r")
	d.answers(d.inbound(0).Address, "fine")
	d.types("\x04")
	d.leaves()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("history file: %v, %v; want it readable by the user alone", info, err)
	}

	d = sit(t, Options{HistoryPath: path})
	d.types("\x1b[A")
	d.screenIs("ready", "› one", "two")
	d.types("!\r")
	if m := d.inbound(0); m.Text != "one\ntwo!" {
		t.Errorf("stored %q", m.Text)
	}
}

func TestTabCompletesCommands(t *testing.T) {
	d := sit(t, Options{Commands: []Command{
		{"/help", "what there is"}, {"/history", "what was said"}, {"/new", "begin afresh"},
	}})
	d.types("/n\t")
	d.sees("› /new")
	d.types("\x15/\t")
	d.screenIs("ready", "  /help        what there is", "  /history     what was said", "  /new         begin afresh", "› /")
	d.types("hi\t 5\r")
	if m := d.inbound(0); m.Text != "/history  5" {
		t.Errorf("stored %q", m.Text)
	}
}

func TestLogLinesStandAboveThePrompt(t *testing.T) {
	var outside strings.Builder
	d := sit(t, Options{Err: &outside})
	d.types("some words")
	d.sees("some words")
	log := slog.New(slog.NewTextHandler(d.channel.LogWriter(), nil))
	log.Warn("a thing happened")
	d.waitsFor("the log line", func() bool {
		text := d.vt.Text()
		return strings.Contains(strings.ReplaceAll(text, "\n", ""), `msg="a thing happened"`) && strings.HasSuffix(text, "\n› some words")
	})
	d.types("\x03\x03")
	d.leaves()
	log.Warn("afterwards")
	if !strings.Contains(outside.String(), "afterwards") {
		t.Error("a log line after the chat is lost")
	}
}

// steers says what must reach no terminal of what is shown on it.
func steers(r rune) bool { return r != '\n' && plaintext.Steers(r) }

// What a server calls its model, and what is logged, stands on the screen as well.
func TestIntroAndLogSteerNoTerminal(t *testing.T) {
	hostile := "model\x1b]0;owned\a\x1b[2J\u009b31m\u202eevil\u2067"
	d := sit(t, Options{Intro: []string{hostile, "ready"}})
	slog.New(slog.NewJSONHandler(d.channel.LogWriter(), nil)).Warn(hostile)
	d.sees("evil")
	d.sees("WARN")
	if screen := d.vt.Text(); strings.ContainsFunc(screen, steers) || len(d.vt.Unknown()) > 0 {
		t.Errorf("the terminal shows %q and was sent %q", screen, d.vt.Unknown())
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"escapes":       "safe \x1b[2J\x1b]0;title\x07 \u009b31m end",
		"entities":      "safe &#27;[2J&#x9b;2J end",
		"directions":    "safe \u202egnirts\u202c \u2066a\u2069 \u2067b \u2068c \u202a end",
		"references":    "safe &#x202e;a &#8294;b `\u202e` [\u202ec](http://\u202ed) end",
		"controls":      "safe \u0085\u0084\u0090q\u009c\u007f\b\b\v\f\x0e end",
		"invalid":       "safe \xff\xfe\x00 end",
		"nested quotes": strings.Repeat(">", 3000) + " end",
		"nested lists":  strings.Repeat("- ", 1000) + " end",
		"open fence":    "```go\nfunc end",
		"brackets":      strings.Repeat("[", 5000) + " end",
		"wide table":    strings.Repeat("|a", 500) + "\n" + strings.Repeat("|-", 500) + "\n" + strings.Repeat("|a\n", 9000) + "\nend",
		"one MiB":       strings.Repeat("word ", 1<<20/5) + "\n\nend",
	} {
		t.Run(name, func(t *testing.T) {
			d := sit(t, Options{})
			d.types("go\r")
			m := d.inbound(0)
			d.channel.Preview(m.Address, text)
			d.answers(m.Address, text)
			d.sees("end\n›")
			if len(d.vt.Unknown()) > 0 {
				t.Errorf("the terminal was sent %q", d.vt.Unknown())
			}
			if screen := d.vt.Text(); strings.ContainsFunc(screen, steers) {
				t.Errorf("the terminal shows %q", screen)
			}
		})
	}
}

func TestEmptyAnswerIsSaid(t *testing.T) {
	d := sit(t, Options{})
	d.types("go\r")
	d.answers(d.inbound(0).Address, " \n")
	d.screenIs("ready", "› go", "(nothing)", "›")
}

func TestLineAsWideAsTheTerminal(t *testing.T) {
	for _, n := range []int{57, 58, 59, 118, 119} {
		d := sit(t, Options{})
		d.types(strings.Repeat("w", n) + "\r")
		d.answers(d.inbound(0).Address, "fine")
		d.waitsFor("one echo of the line", func() bool {
			text := d.vt.Text()
			return strings.Count(text, "w") == n && strings.Count(text, "›") == 2 && strings.HasSuffix(text, "fine\n›")
		})
	}
}

func TestResize(t *testing.T) {
	d := sit(t, Options{})
	d.types("go\r")
	m := d.inbound(0)
	d.channel.Preview(m.Address, "short")
	d.sees("short")
	d.vt.SetSize(100, 30)
	d.types("x")
	d.channel.Preview(m.Address, strings.Repeat("word ", 18)+"end")
	d.sees(strings.Repeat("word ", 18) + "end\n› x")
}

func TestIntroIsWrappedAtWords(t *testing.T) {
	d := sit(t, Options{Intro: []string{strings.Repeat("words ", 12) + "wrapped", "recap"}})
	d.screenIs(strings.TrimSpace(strings.Repeat("words ", 10)), "words words wrapped", "recap", "›")
}

func TestPreviewOfAnotherSessionIsNotShown(t *testing.T) {
	d := sit(t, Options{Session: "mine"})
	d.types("go\r")
	m := d.inbound(0)
	other := strings.Replace(m.Address, "mine", "other", 1)
	d.channel.Preview(other, "secret")
	d.channel.Preview(m.Address, "public")
	d.sees("public")
	d.channel.Preview(other, "secret")
	d.answers(m.Address, "public")
	d.screenIs("ready", "› go", "public", "›")
}

func TestNoColor(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for _, line := range newMarkdown(newPalette()).render("# Title\n\n**bold** `code`\n\n```go\nfunc main() {}\n```", 60) {
		if strings.Contains(line, "\x1b") {
			t.Errorf("%q has colour in it", line)
		}
	}
}
