package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/plaintext"
)

// ThoughtCommand shows what the model thought before the latest answer. It is for the
// terminal alone, and no part of the conversation.
const ThoughtCommand = "/thought"

// thoughts measures how long the model thinks before an answer. It is safe for concurrent use.
type thoughts struct {
	mu            sync.Mutex
	address       string    // ID of the message that is answered; "" = no thoughts
	began, latest time.Time // when the first piece of the call under way came, and when the latest one
}

// grow notes that a piece of the thoughts for an address came.
func (t *thoughts) grow(address string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.address != address {
		t.address, t.began = address, now
	}
	t.latest = now
}

// clear notes that another call begins.
func (t *thoughts) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.address = ""
}

// take returns for how long the model has thought for an address, and forgets it.
func (t *thoughts) take(address string) (took time.Duration, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.address == "" || t.address != address {
		return 0, false
	}
	t.address = ""
	return t.latest.Sub(t.began), true
}

// thoughtLine returns the line that stands above an answer before which the model has
// thought; "" if it has not, or if the line or a part of the answer is on the screen already.
func (c *chat) thoughtLine(address string) string {
	took, some := c.thoughts.take(address)
	if !some || c.live.printed != "" {
		return ""
	}
	line := "Thought"
	if took >= time.Second {
		line = fmt.Sprintf("Thought for %s", took.Round(time.Second))
	}
	if c.opts.Thought != nil {
		line += " · " + ThoughtCommand + " shows it"
	}
	return c.palette.dim(line) + "\n"
}

// showThought prints what the model thought before the latest answer.
func (c *chat) showThought(line string) {
	text, err := c.opts.Thought(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.busy():
		text = "The assistant is still at work. " + ThoughtCommand + " shows its thoughts after the answer."
	case err != nil:
		text = "What the model thought can't be read: " + err.Error()
	case strings.TrimSpace(text) == "":
		text = "There are no thoughts before the last answer."
	}
	text = indented(strings.TrimSpace(plaintext.ForTerminal(text)), c.screen.width-1)
	var shown strings.Builder
	for row := range strings.SplitSeq(text, "\n") {
		shown.WriteString(c.palette.dim(row) + "\n")
	}
	c.unlock(c.echo(line)+shown.String()+"\n", "")
}
