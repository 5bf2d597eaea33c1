package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"parley/conversation"
	"parley/plaintext"
)

const (
	fromBefore = "(from before)"
	stopText   = "/stop"

	// repaintEvery is the least time between two looks at a growing answer.
	repaintEvery = 60 * time.Millisecond
)

// chat is the frontend on a terminal. Everything that is printed is printed under
// mu, so that answers, logs and the line being typed never mix.
type chat struct {
	opts    Options
	palette palette
	errOut  io.Writer

	ctx  context.Context // of run
	post postFunc

	previews previews

	mu       sync.Mutex
	free     *sync.Cond // when locked becomes false, or closed true
	locked   bool       // the editor is between two lines, or may be: print nothing
	open     bool       // the screen is ours
	closed   bool       // for good
	screen   *screen
	markdown *markdown

	pending   []sent // messages that wait for their reply, in order
	live      liveAnswer
	delivered string // the newest message that is answered
	armed     bool   // Ctrl-C was pressed with nothing to stop; again leaves
	leave     bool
	hint      []string
	inputRows int
}

// sent is a message of the user.
type sent struct {
	id    string
	text  string // as typed
	shown bool   // printed above; else it waits in the region
	stop  bool   // the /stop of a Ctrl-C, which is never printed
}

// liveAnswer is an answer that is being written.
type liveAnswer struct {
	address string
	text    string
	printed string // the beginning of text that scrolled out of the region and stays
}

func newChat(o Options) *chat {
	c := &chat{
		opts:      o,
		palette:   newPalette(),
		errOut:    o.Err,
		previews:  previews{changed: make(chan struct{}, 1)},
		inputRows: 1,
	}
	c.free = sync.NewCond(&c.mu)
	c.markdown = newMarkdown(c.palette)
	return c
}

func (c *chat) run(ctx context.Context, post postFunc, ready func()) error {
	c.ctx, c.post = ctx, post
	c.screen = &screen{size: c.opts.Size}
	ed, err := newEditor(c.opts, c.palette, c)
	if err != nil {
		return err
	}
	defer ed.close()
	c.screen.tty, c.screen.editor, c.screen.resize = ed.tty, ed.rl, ed.resize
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
	intro := ansi.Wordwrap(onlySGR(strings.Join(c.opts.Intro, "\n")), c.screen.width-1, "")
	if intro != "" {
		intro += "\n\n"
	}
	_ = c.repaint(0, intro)
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
	_ = c.screen.paint(0, above, nil)
	c.free.Broadcast()
}

// converse reads and accepts messages until the user leaves or the input ends.
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
			c.takeLine(line, draft)
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

// giveUpLine removes what the editor left of a line that was not entered, and
// reports whether the user leaves.
func (c *chat) giveUpLine() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlock(c.inputRows, "", "")
	return c.leave
}

// takeLine removes the echo of an entered line. draft is edited next.
func (c *chat) takeLine(line, draft string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlock(c.echoRows(line), "", draft)
}

// submit accepts a message. It returns what the next line begins with: nothing,
// or what was typed when it could not be stored.
func (c *chat) submit(line, text string) (draft string) {
	if strings.TrimSpace(text) == "" {
		c.takeLine(line, "")
		return ""
	}
	id, err := newID()
	if err == nil {
		c.addPending(id, line)
		err = c.post(c.ctx, id, text)
	} else {
		c.takeLine(line, line)
	}
	if err == nil {
		return ""
	}
	c.withdraw(id, line, err)
	return line
}

func (c *chat) addPending(id, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy := c.busy()
	c.pending = append(c.pending, sent{id: id, text: line, shown: !busy})
	above := ""
	if !busy {
		above = c.echo(line)
	}
	c.unlock(c.echoRows(line), above, "")
}

// withdraw removes a message that was not stored.
func (c *chat) withdraw(id, line string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(id)
	c.inputRows = c.echoRows(line)
	_ = c.repaint(0, c.palette.alarm("The message was not stored: "+plaintext.ForTerminal(err.Error()))+"\n"+
		c.palette.dim("It is back in the line: Enter sends it again.")+"\n\n")
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

// echoRows returns how many rows the editor has left of an entered line.
func (c *chat) echoRows(line string) int {
	return inputRows(promptWidth, []rune(line), c.screen.width)
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

func (c *chat) log(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		_, _ = c.errOut.Write(b)
		return
	}
	c.waitUnlocked()
	if c.closed {
		_, _ = c.errOut.Write(b)
		return
	}
	_ = c.repaint(0, onlySGR(string(b)))
}

// deliver prints a reply. It answers the message that it is addressed to and all
// before it: a run takes several messages together, and the reply to a /stop also
// ends what was being answered.
func (c *chat) deliver(_ context.Context, d conversation.Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waitUnlocked()
	answered := 1 + slices.IndexFunc(c.pending, func(m sent) bool { return m.id == d.Address })
	above := c.unshown(answered)
	if answered == 0 {
		above += c.palette.dim(fromBefore) + "\n"
	}
	// A session has one run at a time: the answer on the screen is this reply's, or
	// none of what was asked in this chat is left to wait for it.
	ends := d.Address == c.live.address || len(c.pending) == answered ||
		slices.ContainsFunc(c.pending[:answered], func(m sent) bool { return m.id == c.live.address })
	above += c.reply(d, ends)
	c.pending = c.pending[answered:]
	above += c.unshown(len(c.pending))
	if ends {
		c.live = liveAnswer{}
	}
	c.delivered = max(c.delivered, d.Address)
	return c.repaint(0, above)
}

// reply renders a delivery, without the part of the answer that is on the screen
// already.
func (c *chat) reply(d conversation.Delivery, ends bool) string {
	text := strings.TrimSpace(plaintext.ForTerminal(d.Text))
	note := ""
	if ends && c.live.printed != "" {
		if rest, ok := strings.CutPrefix(text, c.live.printed); ok {
			text = strings.Trim(rest, "\n")
		} else {
			note = c.palette.dim("(the whole answer)") + "\n"
		}
	} else if text == "" {
		note = c.palette.dim("(nothing)") + "\n\n"
	}
	return note + c.paragraphs(text)
}

// paragraphs returns rendered text with an empty line after it.
func (c *chat) paragraphs(text string) string {
	lines := c.markdown.render(text, c.screen.width)
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n\n"
}
