package cli_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/llm"
	"parley/llm/llmtest"
)

// Ctrl-C ends what is going on, and nothing else: the beginning of the answer is shown once, and the
// next question is answered.
func TestCtrlCInEveryState(t *testing.T) {
	p := openChat(t, func(question string) llmtest.Answer {
		switch {
		case strings.Contains(question, "thinks"):
			return llmtest.Answer{Text: "too late", Delay: time.Hour}
		case strings.Contains(question, "writes"):
			return llmtest.Answer{Text: strings.Repeat("and so on ", 40), Pieces: 40, ChunkDelay: 30 * time.Millisecond, NoFinish: true, Silence: true}
		case strings.Contains(question, "tool"):
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "wait", Arguments: "{}"}}}
		case strings.Contains(question, "busy"):
			return llmtest.Answer{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"3"}}}
		}
		return llmtest.Answer{Text: "re " + question}
	})
	for _, state := range []struct{ question, begun string }{
		{"it thinks", "thinking …"},
		{"it writes", "and so on"},
		{"it calls a tool", "thinking …"},
		{"it is busy", "busy"},
	} {
		calls := len(p.Model.Calls())
		p.types(state.question + "\r")
		p.awaits("the model's call", func(string) bool { return len(p.Model.Calls()) > calls })
		p.sees("› " + state.question)
		p.awaits(state.begun, func(string) bool { return strings.Contains(p.since("› "+state.question), state.begun) })
		p.types("kept \x03") // what is in the line stays there
		p.awaits("the end of the answer", func(string) bool { return strings.Contains(p.since("› "+state.question), "Stopped.") })
		p.types("in the line\r")
		p.awaits("the next answer", func(string) bool {
			return strings.HasSuffix(p.since("› "+state.question), "re kept in the line\n›")
		})
		shown := p.since("› " + state.question)
		if n := strings.Count(shown, "Stopped."); n != 1 || strings.Contains(shown, "from before") {
			t.Errorf("%s: stopped %d times:\n%s", state.question, n, shown)
		}
		p.types("/clear yes\r")
		p.awaits("the new conversation", func(text string) bool {
			return strings.Contains(p.since("› "+state.question), "begins.") && strings.HasSuffix(text, "\n›")
		})
	}

	p.types("given up\x03")
	p.sees("press Ctrl-C again to leave\n›")
	p.types("x\x7f") // any other key, and the first Ctrl-C does not count
	p.awaits("no hint", func(text string) bool {
		return !strings.Contains(text, "again to leave") && strings.HasSuffix(text, "\n›")
	})
	p.types("\x03")
	p.sees("press Ctrl-C again to leave\n›")
	if p.HasEnded() {
		t.Fatal("one Ctrl-C at rest ended the gateway")
	}
	p.types("\x03")
	p.leaves()
	p.expectNoControlSequences()
}

// After Ctrl-L the chat stands at the top of the terminal. Each key and each piece of an answer draws it anew, but the scrollback has
// each line once.
func TestNothingIsDoubledInTheScrollbackAfterCtrlL(t *testing.T) {
	p := openChat(t, func(string) llmtest.Answer {
		return llmtest.Answer{Text: "the answer grows", Pieces: 8, ChunkDelay: 30 * time.Millisecond}
	})
	p.types("\x0c")
	for _, key := range "hello" {
		p.types(string(key))
		p.awaits("the key "+string(key), func(text string) bool { return strings.HasSuffix(text, string(key)) })
	}
	p.types("\r")
	p.sees("the answer grows")
	p.atRest()
	for _, once := range []string{"› h", "the answer"} {
		if text := p.screen.Text(); strings.Count(text, once) != 1 {
			t.Errorf("%q is not there once:\n%s", once, text)
		}
	}
	if unknown := p.screen.Unknown(); len(unknown) > 0 {
		t.Errorf("sequences that the screen does not know: %q", unknown)
	}
}

// An answer that comes after its chat has ended is shown at the next start. The chat leaves the
// terminal's settings as they were.
func TestAnswerFromAnEarlierChatIsMarkedAsEarlier(t *testing.T) {
	slow := make(chan struct{})
	p := openChat(t, func(question string) llmtest.Answer {
		select {
		case <-slow:
			return llmtest.Answer{Text: "re " + question}
		default:
			return llmtest.Answer{Delay: time.Hour}
		}
	})
	raw := p.modes()
	if raw.Lflag&(unix.ECHO|unix.ISIG) != 0 {
		t.Error("the terminal still echoes, or makes signals of keys")
	}
	asked := time.Now()
	p.types("patience\r")
	p.awaits("the model's call", func(string) bool { return len(p.Model.Calls()) > 0 })
	called := time.Now()
	p.types("\x04")
	p.sees("The answer is not there yet.")
	p.leaves()
	if p.modes().Lflag&(unix.ECHO|unix.ISIG) != unix.ECHO|unix.ISIG {
		t.Error("the terminal does not echo again")
	}
	p.Stop()
	close(slow)
	p.Start()
	p.sees("(from before)\nre patience\n›")
	p.Stop()
	p.Start()
	p.awaits("where one left off, in the time of the machine", func(text string) bool {
		return slices.ContainsFunc([]string{asked.Format("15:04"), called.Format("15:04"), asked.Format("2 Jan 15:04"), called.Format("2 Jan 15:04")}, func(at string) bool {
			return strings.Contains(text, "you · "+at+"\n  patience")
		})
	})
}

// A recap renders the last answers like the chat did when they came.
func TestRecapLooksLikeTheOriginalAnswer(t *testing.T) {
	answer := "Some **bold** words of `code`, see [Go](https://go.dev) for 2\\,3 more words, which go on and on.\n\n- one\n- **two**\n\n```go\nx := 1\n```\n\n" + strings.Repeat("and more\n\n", 9)
	p := openChat(t, func(string) llmtest.Answer { return llmtest.Answer{Text: answer} })
	p.asks("what *is* this?")
	p.has(1) // whole: what is shown before may be a part of it
	shown, _, _ := strings.Cut(p.since("› what *is* this?\n"), "\nand more")
	p.Stop()
	p.Start()
	p.sees("Where you left off")
	p.atRest()
	_, recap, _ := strings.Cut(p.since("Where you left off"), "  what *is* this?\nassistant · ")
	_, recap, _ = strings.Cut(recap, "\n")
	if want := "  " + strings.ReplaceAll(shown, "\n", "\n  ") + " …\n›"; recap != want || !strings.HasPrefix(shown, "Some bold words of code, see Go (https://go.dev) for 2\\,3\nmore") {
		t.Errorf("where one left off reads\n%s\nwant\n%s", recap, want)
	}
}

// A reminder that comes while its chat is open is not marked as earlier.
func TestReminderIsShownInTheOpenChat(t *testing.T) {
	p := openChat(t, func(question string) llmtest.Answer {
		if strings.Contains(question, "is due") {
			return llmtest.Answer{Text: "The eggs are done."}
		}
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "remind", Arguments: `{"text": "the eggs", "in_minutes": 0.02}`}}}
	})
	p.types("tell me when the eggs are done\r")
	p.sees("The eggs are done.\n›")
	if shown := p.screen.Text(); !strings.Contains(shown, "fine\n") || strings.Contains(shown, "from before") {
		t.Errorf("the screen shows\n%s", shown)
	}
}

func (p *terminalUser) modes() unix.Termios {
	p.t.Helper()
	m, err := unix.IoctlGetTermios(int(p.program.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *m
}

// The first lines of a long answer scroll up while it is written, and stay there, each once.
func TestLongAnswerScrollsWithoutLossWhileItIsWritten(t *testing.T) {
	const many = 150
	numbered := func(form string) string {
		var b strings.Builder
		for i := range many {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	answers := map[string]string{
		"paragraphs": numbered("word%d.\n\n"),
		"paragraph":  numbered("word%d "),
		"emphasis":   numbered("word%d **bold of it** "),
		"list":       numbered("- word%d\n"),
		"code":       "Here:\n\n```go\n" + numbered("\tword%d :=  1\n") + "```\n\nThere.",
		"gaps":       "```\n" + numbered("word%d\n\n\n") + "```",
		"steps":      "1. First\n\n   ```sh\n" + numbered("   if word%d\n     then\n") + "   ```\n\n2. Last",
		"table":      "| Number | Word |\n|--:|---|\n" + strings.ReplaceAll(numbered("| 7 | word%d |\n"), "| 7 | word75 ", "| 1234567890 | word75 "),
		"item":       "- First\n- " + numbered("word%d "),
		"items":      "- First:\n" + numbered("  - word%d\n"),
		"quote":      "> " + numbered("word%d "),
		"listed":     "- ```go\n" + numbered("  word%d :=  1\n") + "  ```\n- Last",
		"quoted":     "> ```go\n" + numbered("> word%d :=  1\n") + "> ```",
		"indented":   "1. A table:\n\n   | Number | Word |\n   |--:|---|\n" + numbered("   | 7 | word%d |\n") + "\n2. Last",
		"narrow":     "| A | B | C | D | E | F | G | H |\n|---|---|---|---|---|---|---|---|\n" + numbered("| word%d | 1234567 | 1234567 | 1234567 | 1234567 | 1234567 | 1234567 | 12345678 |\n"),
		"wide":       "````\n```\n" + numbered("word%d "+strings.Repeat("wide ", 15)+"\n") + "````",
	}
	p := openChat(t, func(question string) llmtest.Answer {
		kind, end, _ := strings.Cut(question, " ")
		if text, ok := answers[kind]; ok {
			return llmtest.Answer{Text: text, Pieces: 20, ChunkDelay: 10 * time.Millisecond, Silence: end == "and stops", NoFinish: end == "and stops"}
		}
		return llmtest.Answer{Text: "fine"}
	})
	for kind := range answers {
		for _, question := range []string{kind + " and stops", kind + " whole"} {
			p.types(question + "\r")
			p.sees("› " + question)
			last := fmt.Sprintf("word%d", many-1)
			p.awaits(last, func(string) bool { return strings.Contains(p.since("› "+question), last) })
			if strings.HasSuffix(question, "stops") {
				p.awaits("each word once", func(string) bool { return eachOnce(p.since("› "+question), many) == "" })
				p.types("\x03")
			}
			p.types("and now?\r")
			p.awaits("the next answer", func(text string) bool {
				return strings.HasSuffix(text, "fine\n›") && strings.Contains(p.since("› "+question), "\n› and now?\n") && !strings.Contains(text, "(waits)")
			})
			shown, _, _ := strings.Cut(p.since("› "+question), "\n› and now?\n")
			if wrong := eachOnce(shown, many); wrong != "" {
				t.Errorf("%s: %s:\n%s", question, wrong, shown)
			}
			if strings.Contains(shown, "once more") || strings.Contains(shown, "the whole answer") {
				t.Errorf("%s is shown anew:\n%s", question, shown)
			}
			if kind == "steps" && strings.HasSuffix(question, "whole") && (!strings.Contains(shown, "\n     if word0\n       then\n     if word1\n") || !strings.Contains(shown, "\n2. Last")) {
				t.Errorf("the code of a list is not shown as one:\n%s", shown)
			}
			if kind == "code" && strings.HasSuffix(question, "whole") && (!strings.Contains(shown, "\n      word75 :=  1\n      word76") || strings.Contains(shown, "`")) {
				t.Errorf("code is not shown as code:\n%s", shown)
			}
		}
	}
	p.expectNoControlSequences()
}

// A block that arrives faster than the terminal draws it, and is longer than one draw, is shown
// completely, even if the answer before it is still being delivered.
func TestVeryLongBlockScrollsWithoutLossWhileItIsWritten(t *testing.T) {
	const many = 600
	var list strings.Builder
	for i := range many {
		fmt.Fprintf(&list, "- word%d is one of many in a list that comes all at once\n", i)
	}
	p := openChat(t, func(question string) llmtest.Answer {
		if question == "hello" {
			return llmtest.Answer{Text: "hi"}
		}
		return llmtest.Answer{Text: list.String(), Pieces: 1, Silence: true, NoFinish: true}
	})
	p.asks("hello")
	p.types("go on\r")
	p.awaits("each word once", func(string) bool { return eachOnce(p.since("› go on"), many) == "" })
	p.expectNoControlSequences()
}

// eachOnce describes which of the numbered words are missing, repeated or out of order; "" if none are.
func eachOnce(shown string, many int) string {
	at := 0
	for _, word := range strings.Fields(shown) {
		if !strings.HasPrefix(word, "word") {
			continue
		}
		if want := fmt.Sprintf("word%d", at); strings.TrimSuffix(word, ".") != want {
			return word + " where " + want + " belongs"
		}
		at++
	}
	if at != many {
		return fmt.Sprintf("%d words of %d", at, many)
	}
	return ""
}
