package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/plaintext"
)

// fine answers every question with "fine".
func fine(string) llmtest.Answer { return llmtest.Answer{Text: "fine"} }

// wasAsked fails the test unless the model's newest call ends with a question.
func (p *terminalUser) wasAsked(question string) {
	p.t.Helper()
	calls := p.Model.Calls()
	if got := calls[len(calls)-1].LastUser(); !strings.HasSuffix(got, question) {
		p.t.Errorf("the model was asked %.200q, want %.200q", got, question)
	}
}

func TestAnswerIsRendered(t *testing.T) {
	p := openChat(t, func(string) llmtest.Answer {
		return llmtest.Answer{Text: "Some **bold** words.\n\n- one\n- two\n\nIt is \\(a^2\\,b\\), and\n\n\\[\\int_0^1 x\\,dx\\]"}
	})
	p.types("render\r")
	p.sees("x\\,dx\\]\n›")
	if shown, want := p.since("› render\n"), "Some bold words.\n• one\n• two\nIt is \\(a^2\\,b\\), and\n\\[\\int_0^1 x\\,dx\\]\n›"; shown != want {
		t.Errorf("the answer is shown as\n%s\nwant\n%s", shown, want)
	}
	p.expectNoControlSequences()
}

func TestMessageTypedDuringARunWaits(t *testing.T) {
	p := openChat(t, func(question string) llmtest.Answer {
		if strings.HasSuffix(question, "slowly") {
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "wait", Arguments: "{}"}}}
		}
		return llmtest.Answer{Text: "fine"}
	})
	p.types("slowly\r")
	p.sees("thinking")
	p.types("next quest")
	p.sees("› next quest")
	p.types("ion 日本\r")
	p.sees("(waits)")
	close(p.tool)
	p.awaits("both answers", func(text string) bool {
		return !strings.Contains(text, "(waits)") && strings.HasSuffix(text, "fine\n›")
	})
	p.wasAsked("next question 日本")
	p.expectNoControlSequences()
}

// The window gets another width while an answer is written: the part that is shown is wrapped to the new width.
func TestAnswerIsWrappedAgainAfterAResize(t *testing.T) {
	p := openChat(t, func(string) llmtest.Answer {
		return llmtest.Answer{Text: strings.Repeat("word ", 18) + "end", Pieces: 18, ChunkDelay: 50 * time.Millisecond, NoFinish: true, Silence: true}
	})
	p.types("wide\r")
	p.sees("› wide\nword")
	p.resizes(100, 30)
	p.types("x")
	p.sees("\n" + strings.Repeat("word ", 18) + "end\n› x")
	p.resizes(columns, rows)
	p.types("\x7f\x03")
	p.sees("Stopped.")
	p.atRest()
	p.expectNoControlSequences()
}

func TestAnswerThatBreaksOffIsReplacedByTheNextAttempt(t *testing.T) {
	var calls atomic.Int64
	p := openChat(t, func(string) llmtest.Answer {
		if calls.Add(1) > 1 {
			return llmtest.Answer{Text: "Another answer."}
		}
		return llmtest.Answer{Text: strings.Repeat("void\n\n", 30) + "last", Pieces: 10, ChunkDelay: 30 * time.Millisecond, CutAfter: 9}
	})
	p.types("break\r")
	p.sees("void\n")
	p.sees(")\nAnother answer.\n›") // below "(once more)"
	p.expectNoControlSequences()
}

func TestLinesOfAnyLengthReachTheModel(t *testing.T) {
	p := openChat(t, fine)
	for _, n := range []int{columns - 3, columns - 2, columns - 1, 2*columns - 2, 2*columns - 1, 10 * columns} {
		line := strings.Repeat("w", n)
		p.types(line + "\r")
		p.awaits("the answer to the line", func(string) bool {
			shown := strings.ReplaceAll(p.since("› w"), "\n", "")
			return strings.HasPrefix(shown, line[1:]) && strings.HasSuffix(shown, "fine›")
		})
		p.wasAsked(line)
	}
	p.expectNoControlSequences()
}

// Lines that are continued, quoted or pasted reach the model unchanged. Long pastes are shown as a
// placeholder.
func TestSeveralLinesAreOneMessage(t *testing.T) {
	p := openChat(t, fine)
	twenty := strings.TrimSuffix(strings.Repeat("a line\n", 20), "\n")
	for keys, want := range map[string]string{
		"one\\\rtwo":                            "one\ntwo",
		"\"\"\"\rone\r two\r\"\"\"":             "one\n two",
		"one\x1b\rtwo":                          "one\ntwo",
		"see \x1b[200~one\r\ttwo\x1b[201~!":     "see one\n\ttwo!",
		"\x1b[200~" + twenty + "\x1b[201~ yes?": twenty + " yes?",
	} {
		calls := len(p.Model.Calls())
		p.types(keys + "\r")
		p.awaits("the model's call", func(string) bool { return len(p.Model.Calls()) > calls })
		p.atRest()
		p.wasAsked(want)
	}
	p.sees(": 20 lines] yes?")
	huge := strings.Repeat("x", 1<<20)
	p.types("\x1b[200~" + huge + "\x1b[201~\r")
	p.sees("› [paste 2: 1048576 characters]")
	p.awaits("the answer to a huge paste", func(text string) bool {
		return strings.HasSuffix(text, "fine\n›") && p.newest(conversation.RoleUser) == huge
	})
	p.expectNoControlSequences()
}

func TestAttachedFileReachesTheModel(t *testing.T) {
	p := openChat(t, fine)
	notes := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notes, []byte("buy milk"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.types("/attach /nowhere/a.txt\r")
	p.sees("Nothing was sent: there is no file /nowhere/a.txt.\nArrow up brings the message back.\n›")
	p.types("\x1b[A") // is in the history
	p.sees("message back.\n› /attach /nowhere/a.txt")
	p.types("\x1b[B/attach " + notes + " see this\r")
	p.awaits("the answer", func(text string) bool { return strings.HasSuffix(p.since("see this"), "fine\n›") })
	calls := p.Model.Calls()
	if sent, err := json.Marshal(calls[len(calls)-1].Messages); err != nil || !strings.Contains(string(sent), "buy milk") || !strings.Contains(string(sent), "see this") {
		t.Errorf("the file is not in what the model was sent, %v: %s", err, sent)
	}
	p.expectNoControlSequences()
}

// Commands are completed, /history shows times by the clock of the machine, and arrow up brings
// earlier lines back.
func TestCommandsAndEarlierLinesAtThePrompt(t *testing.T) {
	p := openChat(t, fine)
	before := time.Now()
	p.asks("what time is it?")
	p.types("/\t") // lists all commands
	p.sees("/help        Show the commands")
	p.types("his\t1\r")
	p.awaits("the newest turn, by the clock of the machine", func(string) bool {
		shown := p.since("› /history")
		return strings.Contains(shown, "what time is it?") && (strings.Contains(shown, before.Format("15:04")) || strings.Contains(shown, time.Now().Format("15:04")))
	})
	p.atRest()
	p.types("\x1b[A\x1b[A") // the line before the newest
	p.sees("› what time is it?")
	p.types("\x15\x04")
	p.leaves()
	p.expectNoControlSequences()
}

// The terminal says that the model is busy, and for how long, before the next attempt: the second call
// gets no answer until the notice is shown.
func TestBusyModelIsReportedBeforeTheNextAttempt(t *testing.T) {
	said := make(chan struct{})
	var calls atomic.Int64
	p := openChat(t, func(string) llmtest.Answer {
		if calls.Add(1) > 1 {
			<-said
		}
		return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"25"}}}
	})
	defer close(said)
	p.types("hello\r")
	p.sees("The model is busy. Trying again in 25 seconds.")
	p.types("\x03")
	p.sees("Stopped.")
	p.atRest()
}

// No answer of a model can control the terminal.
func TestHostileAnswers(t *testing.T) {
	answers := map[string]string{
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
		"long":          strings.Repeat("word ", 1<<16/5) + "\n\nend",
	}
	p := openChat(t, func(question string) llmtest.Answer { return llmtest.Answer{Text: answers[question]} })
	for kind := range answers {
		p.types("/clear yes\r")
		p.atRest()
		p.types(kind + "\r")
		p.awaits("the answer of "+kind, func(string) bool {
			shown := p.since("› " + kind)
			return strings.HasSuffix(shown, "end\n›") && !strings.Contains(shown, "thinking")
		})
		if screen := p.screen.Text(); strings.ContainsFunc(screen, func(r rune) bool { return r != '\n' && plaintext.Steers(r) }) {
			t.Errorf("%s: the terminal shows %q", kind, screen)
		}
	}
	p.expectNoControlSequences()
}

// The chat warns before it sends a picture that the model can't see. Entered again, it is sent.
func TestPictureThatTheModelCannotSeeIsSentOnlyWhenEnteredAgain(t *testing.T) {
	p := openChat(t, fine, "[llm]\nvision = false")
	picture := filepath.Join(t.TempDir(), "cat.png")
	if err := os.WriteFile(picture, []byte("\x89PNG\r\n\x1a\n and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.types("/attach " + picture + " what is it?\r")
	p.sees("The model can't see pictures: of cat.png it is told only\nthe name. (vision = true in [llm] says that it can.)\nThe message is back in the line: Enter sends it all the\nsame.\n› /attach")
	if calls := p.Model.Served(); calls > 0 {
		t.Errorf("the model was asked %d times", calls)
	}
	p.types("\r")
	p.awaits("the answer", func(text string) bool {
		return strings.HasSuffix(text, "fine\n›") && p.newest(conversation.RoleUser) == "what is it?"
	})
}

// Of an input that is taller than the screen, the rows around the cursor are shown, without copies of
// it above. The same holds for one from the history. When it is sent, it is shown once, completely.
func TestLineTallerThanTheScreen(t *testing.T) {
	p := openChat(t, fine)
	p.types("hello\r")
	p.sees("fine\n›")
	line, want := "", "› typed 0"
	for i := range rows + 10 {
		line += fmt.Sprintf("typed %d\x1b\r", i) // Alt-Enter
	}
	for i := range rows + 9 {
		want += fmt.Sprintf("\n  typed %d", i+1)
	}
	once := func(what string) {
		t.Helper()
		p.awaits("each row once, below the earlier text, "+what, func(text string) bool { // while it is drawn, a row may be there twice
			for i := range rows + 10 {
				if strings.Count(text+"\n", fmt.Sprintf("typed %d\n", i)) > 1 {
					return false
				}
			}
			return strings.Contains(text, "› hello\nfine\n")
		})
	}
	p.types(line + "end")
	p.sees(fmt.Sprintf("typed %d\nend", rows+9))
	once("typed")
	p.types(strings.Repeat("\x1b[D", len("typed 10\n")*(rows+10))) // to the beginning
	p.sees("› typed 0\ntyped 1\n")
	once("at the beginning")
	p.types("\x05\r") // to the end
	p.sees(want + "\n  end\n")
	p.sees("end\nfine\n›")
	once("sent")
	p.types("\x1b[A")
	p.sees(fmt.Sprintf("fine\ntyped %d", 12)) // the rows around the cursor
	p.types("\x15")
	p.awaits("the empty line", func(text string) bool { return strings.HasSuffix(text, "end\nfine\n›") })
	once("taken back")
}

func TestMessageThatIsNotStoredReturnsToTheInput(t *testing.T) {
	p := openChat(t, fine)
	storetest.Exec(t, p.Store(), diskFull)
	p.types("precious\r")
	p.sees("The message was not stored:")
	p.sees("It is back in the line: Enter sends it again.\n› precious")
	storetest.Exec(t, p.Store(), "DROP TRIGGER full")
	p.types("\r")
	p.sees("› precious\nfine\n›")
}

// An unfinished input is not sent when the chat ends. Earlier inputs are in the history of the next
// chat.
func TestHalfTypedLineIsNotSentAtTheEnd(t *testing.T) {
	p := openChat(t, fine)
	p.types("one\\\rtwo\r")
	p.sees("fine\n›")
	p.types("do not send this")
	p.sees("send this")
	p.Stop()
	history := filepath.Join(p.Dir, ".local", "state", "parley", "history")
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("history file: %v, %v; want it readable by the user alone", info, err)
	}
	p = openChatIn(t, p.Dir, fine)
	p.types("\x1b[A")
	p.sees("› one\ntwo")
	p.types("! but not this")
	p.sees("not this")
	p.keys.Close() // as when the window is closed
	p.leaves()
	p.Stop()
	if asked := p.newest(conversation.RoleUser); asked != "one\ntwo" {
		t.Errorf("stored %q", asked)
	}
}

// The model's name, which its server gives, is shown without control characters.
func TestNameOfTheModelHasNoControlCharacters(t *testing.T) {
	p := openChat(t, fine, `[llm]`, `model = "mo\u001b]0;owned\u0007\u001b[2J\u009b31m\u202edel\u2067"`)
	p.sees("del")
	if screen := p.screen.Text(); strings.ContainsFunc(screen, func(r rune) bool { return r != '\n' && plaintext.Steers(r) }) {
		t.Errorf("the terminal shows %q", screen)
	}
	p.expectNoControlSequences()
}
