package telegram

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"
)

// Limits of what is remembered of the talk in groups. It is kept in memory alone.
const (
	maxOverheardText  = 500      // characters of a message
	maxOverheardBytes = 32 << 10 // of a place
	maxOverheardIn    = 1000     // places; beyond that all is forgotten
)

// overheard are recent messages of groups that were not addressed to the bot, from
// people who may talk to it. The next message that is addressed to it takes them
// along.
type overheard struct {
	most int // messages of a place; 0 = none

	mu     sync.Mutex
	places map[address][]string // by chat and topic, oldest first
}

// add remembers a message, and forgets the oldest ones beyond the limits.
func (o *overheard) add(at address, line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.places == nil || len(o.places) >= maxOverheardIn {
		o.places = map[address][]string{}
	}
	lines := append(o.places[at], line)
	lines = lines[max(0, len(lines)-o.most):]
	size := 0
	for i := len(lines) - 1; i >= 0; i-- {
		if size += len(lines[i]); size > maxOverheardBytes {
			lines = lines[i+1:]
			break
		}
	}
	o.places[at] = lines
}

// take returns what is remembered of a place, a message on each line, and forgets it.
func (o *overheard) take(at address) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.places[at]
	delete(o.places, at)
	return strings.Join(lines, "\n")
}

// overhear remembers a message that is not addressed to the bot, where its sender may
// talk to it. The error is the end of ctx.
func (c *Channel) overhear(ctx context.Context, m *message) error {
	if c.overheard.most == 0 || !m.isGroup() {
		return nil
	}
	text := m.said()
	for _, f := range m.files(m.ID) {
		text = joined(text, "[file "+f.Name+"]")
	}
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	if known, err := c.knows(ctx, m, m.sender()); err != nil || !known {
		return err
	}
	if utf8.RuneCountInString(text) > maxOverheardText {
		text = string([]rune(text)[:maxOverheardText]) + " …"
	}
	c.overheard.add(m.address().place(), m.sender().name()+": "+strings.ReplaceAll(text, "\n", "\n  "))
	return nil
}

// place returns the address of the chat or topic alone.
func (a address) place() address { return address{Chat: a.Chat, Topic: a.Topic} }
