package cli

import (
	"context"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"parley/plaintext"
)

const (
	// slackRows is how far the line may grow before the region makes room.
	slackRows = 3

	// maxLive is the tail of an answer, in bytes, that is rendered again while it grows.
	maxLive = 24 << 10

	// liveStep is how many bytes of a longer tail are printed to stay at a time, at least.
	liveStep = 4 << 10
)

// previews takes what the model writes as fast as it comes.
type previews struct {
	changed chan struct{}

	mu            sync.Mutex
	address, text string
}

func (c *chat) preview(address, text string) {
	p := &c.previews
	p.mu.Lock()
	p.address, p.text = address, text
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// watchPreviews draws the growing answer, as often as an eye can follow.
func (c *chat) watchPreviews(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.previews.changed:
		}
		c.drawPreview()
		select {
		case <-ctx.Done():
			return
		case <-time.After(repaintEvery):
		}
	}
}

func (c *chat) drawPreview() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waitUnlocked()
	if c.closed {
		return
	}
	c.previews.mu.Lock()
	address, text := c.previews.address, c.previews.text
	c.previews.mu.Unlock()
	if address <= c.delivered && address != c.asked { // ids sort by time
		return // a late one: the reply is on the screen, or nothing was ever shown
	}
	above := ""
	if address != c.live.address {
		c.live = liveAnswer{address: address}
		above = c.unshownUpTo(address)
	}
	c.live.text = strings.TrimSpace(plaintext.ForTerminal(text))
	if !strings.HasPrefix(c.live.text, c.live.printed) {
		above += c.palette.dim("(once more)") + "\n\n"
		c.live.printed, c.live.head = "", head{}
	}
	if c.live.text != "" {
		above += c.thoughtLine(address)
	}
	_ = c.repaint(above)
}

// unshownUpTo prints the pending messages up to the one that an answer to address answers.
func (c *chat) unshownUpTo(address string) string {
	for i, m := range c.pending {
		if m.id == address {
			return c.unshown(i + 1)
		}
	}
	return ""
}

// repaint prints above and draws the region and the line being edited as things stand.
//
// After the end of the chat there is neither, and only above is printed.
func (c *chat) repaint(above string) error {
	if c.closed {
		_, err := io.WriteString(c.screen.tty, above)
		return err
	}
	c.screen.look()
	foot, in := c.foot(), c.input()
	room := max(c.screen.height-len(in.rows)-slackRows-len(foot), 0)
	body, scrolled := c.body(room)
	region := append(body, foot...)
	if most := max(c.screen.height-len(in.rows)-slackRows, 0); len(region) > most {
		region = region[len(region)-most:]
	}
	return c.screen.paint(above+scrolled, region, in)
}

// body renders the answer so far, or a sign that one is to come, in at most
// room rows. Blocks that no longer fit are returned as scrolled, to be printed
// for good.
func (c *chat) body(room int) (lines []string, scrolled string) {
	if !c.busy() {
		return nil, ""
	}
	rest := c.live.rest(c.live.text)
	if rest == "" {
		return []string{c.sign()}, ""
	}
	lines = c.liveLines(c.live.head, rest)
	for len(lines) > room {
		taken, most := rest, len(lines)-room
		if len(c.live.head.text)+len(rest) > maxLive { // as if no more of it were there yet
			step := min(max(liveStep, 2*room*c.screen.width), maxLive-len(c.live.head.text), len(rest))
			taken = strings.ToValidUTF8(rest[:max(step, 0)], "")
			most = len(c.liveLines(c.live.head, taken)) - room
		}
		upper, cut, next := c.part(c.live.head, taken, most)
		if cut == 0 {
			lines = lines[len(lines)-room:]
			break
		}
		scrolled += upper
		c.live.head = next
		c.live.printed = c.live.text[:len(c.live.text)-len(rest)+cut]
		rest = c.live.rest(c.live.text)
		lines = c.liveLines(c.live.head, rest)
	}
	return lines, scrolled
}

// part takes about n lines from the beginning of a growing text: its first block if there are
// several, otherwise the upper lines of the only one. It returns these lines rendered, the offset
// behind them, and the head for the rest. The offset is 0 if the rest would be rendered differently
// by itself.
func (c *chat) part(before head, rest string, n int) (upper string, cut int, next head) {
	if len(before.text)+len(rest) > maxLive {
		return "", 0, head{}
	}
	if cut := firstBlock(before.text+rest) - len(before.text); cut > 0 {
		return c.paragraphs(before, strings.TrimRight(rest[:cut], "\n")), cut, head{text: openCode(before.text + rest[:cut])}
	}
	if table, ok := c.markdown.tableBehind(before.text+rest, len(before.text)); ok {
		if upper, cut, next := c.upperRows(before, rest, n, table); cut > 0 {
			return upper, cut, next
		}
	}
	return c.upperLines(before, rest, n)
}

// upperRows returns about the first n lines of a block with a table, as part does. It splits the
// block between two rows. All later rows keep the column widths of those that are printed first.
func (c *chat) upperRows(before head, block string, n int, table tablePlace) (upper string, cut int, next head) {
	next = head{text: (before.text + block)[:table.rows], columns: table.columns}
	if before.text == next.text {
		next.columns = before.columns
	}
	before.columns = next.columns
	all := c.liveLines(before, block)
	for at := max(table.rows-len(before.text), 0); at < table.to-len(before.text); at++ {
		if at == 0 || block[at-1] != '\n' {
			continue
		}
		lines := c.rendered(before, block[:at])
		if cut > 0 && len(c.onScreen(lines)) > n {
			break
		}
		if len(lines) == 0 {
			continue
		}
		below := c.liveLines(next, block[at:])
		for _, stays := range [][]string{lines, append(lines, "")} { // records stand apart
			if slices.Equal(slices.Concat(c.onScreen(stays), below), all) {
				upper, cut = strings.Join(stays, "\n")+"\n", at
			}
		}
	}
	return upper, cut, next
}

// upperLines returns about the first n lines of a block, as part does.
func (c *chat) upperLines(before head, block string, n int) (upper string, end int, next head) {
	ends := cutsOf(before.text, block)
	all := c.liveLines(before, block)
	above := func(lines int) int { // the number of ends with at most so many lines before them
		return sort.Search(len(ends), func(i int) bool { return len(c.onScreen(c.upper(before, block[:ends[i]]))) > lines })
	}
	var tries []int
	for lines := n; lines > max(n-maxCuts, 0); lines-- {
		if fits := above(lines); fits > 0 {
			tries = append(tries, ends[fits-1])
		}
	}
	more := ends[above(n):] // a line of code may have several rows
	for _, end := range append(tries, more[:min(maxCuts, len(more))]...) {
		stays := c.upper(before, block[:end])
		for _, text := range headsFor(before.text, block[:end], block[end:]) {
			next := head{text: text}
			if len(stays) > 0 && slices.Equal(slices.Concat(c.onScreen(stays), c.liveLines(next, block[end:])), all) {
				return strings.Join(stays, "\n") + "\n", end, next
			}
		}
	}
	return "", 0, head{}
}

// maxCuts is how many places before and after the best one are tried for splitting a growing block:
// emphasised text may go over the end of a line, but hardly over many.
const maxCuts = 4

// upper renders text with a head that is followed by a rest: blank lines at the end of code that
// continues are kept.
func (c *chat) upper(before head, text string) []string {
	code, indent := codeAt(before.text + text)
	if code == 0 {
		return c.rendered(before, text)
	}
	lines := c.rendered(before, text+indent+"x")
	return lines[:max(len(lines)-1, 0)]
}

// rendered renders text with a head.
func (c *chat) rendered(before head, text string) []string {
	lines, shown := c.markdown.renderWith(before.text+text, c.screen.width, before.columns)
	switch {
	case before.text == "":
		return lines
	case shown < 0:
		shown = len(c.markdown.render(before.text, c.screen.width))
	}
	return lines[min(shown, len(lines)):]
}

// onScreen returns lines as lines of one row each.
func (c *chat) onScreen(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	return wrap(strings.Join(lines, "\n"), c.screen.width-1)
}

// liveLines renders unfinished markdown with a head, to lines of one row each.
func (c *chat) liveLines(before head, text string) []string {
	if len(text) > maxLive {
		return wrap(strings.ToValidUTF8(text[len(text)-maxLive/4:], ""), c.screen.width-1)
	}
	return c.onScreen(c.rendered(before, text))
}

func (c *chat) sign() string {
	if c.stopping() {
		return c.palette.dim("stopping … Ctrl-C again leaves")
	}
	return c.palette.dim("thinking … Ctrl-C stops")
}

// foot renders the lines between the answer and the prompt: messages that wait,
// and a hint. It begins with an empty line when there is a body above it.
func (c *chat) foot() []string {
	var lines []string
	if c.busy() {
		if c.stopping() && c.live.text != "" {
			lines = append(lines, c.sign())
		}
		lines = append(lines, "")
	}
	for _, m := range c.pending {
		if !m.shown && !m.stop {
			text := shorten(strings.ReplaceAll(plaintext.ForTerminal(m.text), "\n", " "), 1, c.screen.width/2)
			lines = append(lines, c.palette.dim("› "+text+"  (waits)"))
		}
	}
	for _, line := range c.hint {
		lines = append(lines, c.palette.dim(shorten(line, 1, c.screen.width-4)))
	}
	return lines
}
