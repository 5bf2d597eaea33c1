package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"parley/plaintext"
)

const (
	fromBefore = "(from before)"
	stopText   = "/stop"

	// repaintEvery is the least time between two repaints of a growing answer.
	repaintEvery = 60 * time.Millisecond
)

// chat is the frontend on a terminal. Everything that is printed is printed under
// mu, so that answers and the line being typed never mix.
type chat struct {
	opts    Options
	palette palette

	ctx  context.Context // of run
	post postFunc

	previews previews
	thoughts thoughts

	mu       sync.Mutex
	free     *sync.Cond // signals that locked has become false, or closed true
	locked   bool       // the editor is between two lines, or may be: print nothing
	open     bool       // the chat draws on the screen
	closed   bool       // the chat has ended
	screen   *screen
	markdown *typesetter

	pending   []sent // messages that wait for their reply, the oldest first
	first     string // ID of the first message that was written in this chat; "" = none yet
	asked     string // ID of the message whose run waits for an answer of the user; "" = none
	live      liveAnswer
	delivered string // ID of the newest message that is answered
	armed     bool   // Ctrl-C was pressed with nothing to stop; a second press leaves
	leave     bool
	hint      []string
	prompt    string
	line      []rune // the input line that is being edited
	cursor    int    // place of the cursor in line
}

// sent is a message of the user.
type sent struct {
	id    string
	text  string // as typed
	shown bool   // the message is printed above the region; else it waits in the region
	stop  bool   // the /stop of a Ctrl-C, which is never printed
}

// liveAnswer is an answer that is being written.
type liveAnswer struct {
	address string
	text    string
	printed string // the beginning of text that scrolled out of the region and stays
	head    head   // what has to stand before the rest of text when that is rendered
}

// rest returns the part of a text, which begins with printed, that is not printed yet.
func (l liveAnswer) rest(text string) string {
	rest := text[len(l.printed):]
	if l.head.text == "" {
		rest = strings.TrimLeft(rest, "\n")
	}
	return rest
}

func newChat(o Options) *chat {
	c := &chat{
		opts:     o,
		palette:  newPalette(),
		previews: previews{changed: make(chan struct{}, 1)},
	}
	c.prompt = c.palette.accent("›") + " "
	c.free = sync.NewCond(&c.mu)
	c.markdown = newTypesetter(c.palette)
	return c
}

func (c *chat) run(ctx context.Context, post postFunc, ready func()) error {
	c.ctx, c.post = ctx, post
	c.screen = &screen{size: c.opts.Size}
	ed, err := newEditor(c.opts, c)
	if err != nil {
		return err
	}
	defer ed.close()
	c.screen.tty = ed.tty
	c.begin()
	ready()

	watch, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { c.watchPreviews(watch) })
	defer watcher.Wait()
	defer stopWatching()
	defer context.AfterFunc(ctx, ed.keys.end)()

	c.converse(ed)
	c.end()
	return nil
}

// begin prints the introduction.
func (c *chat) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
	c.screen.look()
	var lines []string
	intro := slices.Clone(c.opts.Intro)
	if recap := c.markdown.recap(c.opts.Recap, time.Now(), c.screen.width); recap != nil {
		intro = append(append(intro, ""), recap...)
	}
	for _, line := range intro {
		lines = append(lines, indented(onlySGR(line), c.screen.width-1))
	}
	above := strings.Join(lines, "\n")
	if above != "" {
		above += "\n\n"
	}
	_ = c.repaint(above)
}

// indented wraps a line between words, and indents all of its rows as it is indented
// itself.
func indented(line string, columns int) string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	rows := strings.Split(ansi.Wordwrap(text, max(columns-len(indent), minRoom), ""), "\n")
	return indent + strings.Join(rows, "\n"+indent)
}

// end removes the region, and says what becomes of an answer that is still being
// written.
func (c *chat) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	above := c.unshown(len(c.pending))
	if len(c.pending) > 0 {
		above += c.palette.dim("The answer is not there yet. If it does not come now, it will be here next time.") + "\n"
	}
	c.locked, c.open, c.closed = false, false, true
	_ = c.screen.paint(above, nil, input{})
	c.free.Broadcast()
}

// converse reads messages and accepts them until the user leaves or the input ends.
func (c *chat) converse(ed *editor) {
	draft := ""
	for {
		line, err := ed.readLine(draft)
		draft = ""
		switch {
		case ed.keys.over() || errors.Is(err, io.EOF):
			c.giveUpLine()
			return
		case err != nil:
			if c.giveUpLine() {
				return
			}
		case unfinished(line):
			draft = continued(line)
			c.takeLine(draft)
		default:
			ed.remember(line)
			draft = c.submit(line, message(ed.expand(line)))
		}
	}
}

// unfinished reports whether Enter asks for another line: after a backslash, and
// within a block that `"""` opened.
func unfinished(line string) bool {
	if block, ok := strings.CutPrefix(line, quotes); ok {
		return !strings.HasSuffix(block, quotes)
	}
	return strings.HasSuffix(line, `\`)
}

// quotes opens and closes a block of lines.
const quotes = `"""`

func continued(line string) string {
	if strings.HasPrefix(line, quotes) {
		return line + "\n"
	}
	return strings.TrimSuffix(line, `\`) + "\n"
}

// message returns the text of a finished line.
func message(line string) string {
	if block, ok := strings.CutPrefix(line, quotes); ok {
		line = strings.Trim(strings.TrimSuffix(block, quotes), "\n")
	}
	return entered(line)
}

// giveUpLine removes a line from the screen that was not entered, and reports whether the user
// leaves.
func (c *chat) giveUpLine() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlock("", "")
	return c.leave
}

// takeLine removes an entered line. draft is edited next.
func (c *chat) takeLine(draft string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlock("", draft)
}

// submit accepts a message. It returns what the next line begins with: nothing,
// or what was typed when it could not be stored.
func (c *chat) submit(line, text string) (draft string) {
	if strings.TrimSpace(text) == "" {
		c.takeLine("")
		return ""
	}
	if c.opts.Thought != nil && strings.TrimSpace(text) == ThoughtCommand {
		c.showThought(line)
		return ""
	}
	id, err := newID()
	if err == nil {
		c.addPending(id, line)
		err = c.post(c.ctx, id, text)
	} else {
		c.takeLine(line)
	}
	if err == nil {
		return ""
	}
	return c.withdraw(id, line, err)
}

func (c *chat) addPending(id, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy := c.busy()
	c.first = cmp.Or(c.first, id)
	c.pending = append(c.pending, sent{id: id, text: line, shown: !busy})
	above := ""
	if !busy {
		above = c.echo(line)
	}
	c.unlock(above, "")
}

// withdraw removes a message that was not stored, and says why. It returns what the next
// line begins with: the message if it can be sent again as it is. The arrow key brings back one
// that was refused, so that what is typed next is not appended to it.
func (c *chat) withdraw(id, line string, err error) (draft string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(id)
	told, what, draft := "The message was not stored: "+err.Error(), "It is back in the line: Enter sends it again.", line
	var unseen unseenError
	var refused refusedError
	switch {
	case errors.As(err, &unseen):
		told, what = err.Error(), "The message is back in the line: Enter sends it all the same."
	case errors.As(err, &refused):
		told, what, draft = "Nothing was sent: "+err.Error()+".", "Arrow up brings the message back.", ""
	}
	columns := c.screen.width - 1
	c.setLine(draft)
	_ = c.repaint(c.palette.alarm(indented(plaintext.ForTerminal(told), columns)) + "\n" + c.palette.dim(indented(what, columns)) + "\n\n")
	return draft
}

// forget removes a message from the list of those that wait for a reply.
func (c *chat) forget(id string) {
	c.pending = slices.DeleteFunc(c.pending, func(m sent) bool { return m.id == id })
}

// stopping reports whether Ctrl-C has asked to stop the answer and the reply to
// that is still due.
func (c *chat) stopping() bool {
	return slices.ContainsFunc(c.pending, func(m sent) bool { return m.stop })
}

// busy reports whether an answer is due.
func (c *chat) busy() bool { return len(c.pending) > 0 || c.live.address != "" }

func (c *chat) echo(line string) string {
	line = strings.NewReplacer("\t", strings.Repeat(" ", tabWidth), "\n", "\n  ").Replace(plaintext.ForTerminal(line))
	return c.palette.accent("›") + " " + line + "\n\n"
}

// unshown prints the first n pending messages that wait in the region.
func (c *chat) unshown(n int) string {
	above := ""
	for i := range c.pending[:n] {
		if m := &c.pending[i]; !m.shown && !m.stop {
			m.shown = true
			above += c.echo(m.text)
		}
	}
	return above
}

// deliver prints a reply. It answers the message that it is addressed to and all
// before it: a run takes several messages together, and the reply to a /stop also
// ends what was being answered.
func (c *chat) deliver(_ context.Context, p piece) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waitUnlocked()
	if p.continues {
		return c.repaint(c.reply(p, false))
	}
	answered := 1 + slices.IndexFunc(c.pending, func(m sent) bool { return m.id == p.address })
	above := c.unshown(answered)
	if isOlder := c.first == "" || p.address < c.first; answered == 0 && isOlder && p.address != c.asked { // ids sort by time
		above += c.palette.dim(fromBefore) + "\n"
	}
	// A session has one run at a time: the answer on the screen is this reply's, or
	// none of what was asked in this chat is left to wait for it.
	ends := p.address == c.live.address || len(c.pending) == answered ||
		slices.ContainsFunc(c.pending[:answered], func(m sent) bool { return m.id == c.live.address })
	if p.interim {
		above += c.paragraphs(head{}, strings.TrimSpace(plaintext.ForTerminal(p.text)))
		c.asked = p.address
	} else {
		if ends {
			above += c.thoughtLine(cmp.Or(c.live.address, p.address))
		}
		above += c.reply(p, ends)
		if p.address == c.asked {
			c.asked = ""
		}
	}
	c.pending = c.pending[answered:]
	above += c.unshown(len(c.pending))
	if ends {
		c.live = liveAnswer{}
	}
	c.delivered = max(c.delivered, p.address)
	return c.repaint(above)
}

// reply renders a piece of a reply, without the part of the answer that is on the screen
// already.
func (c *chat) reply(p piece, ends bool) string {
	text := strings.TrimSpace(plaintext.ForTerminal(p.text))
	note, behind := "", head{}
	if ends && c.live.printed != "" {
		if strings.HasPrefix(text, c.live.printed) {
			text, behind = c.live.rest(text), c.live.head
		} else {
			note = c.palette.dim("(the whole answer)") + "\n"
		}
	} else if text == "" {
		note = c.palette.dim("(nothing)") + "\n\n"
	}
	return note + c.paragraphs(behind, text)
}

// paragraphs returns rendered text that stands behind head, with an empty line after it.
func (c *chat) paragraphs(head head, text string) string {
	lines := c.rendered(head, text)
	switch {
	case len(lines) > 0:
		return strings.Join(lines, "\n") + "\n\n"
	case head.text != "": // the end of code
		return "\n"
	}
	return ""
}
