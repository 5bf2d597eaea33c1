package cli

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"parley/markup"
	"parley/plaintext"
)

const (
	// slackRows is how far the line may grow before the region makes room.
	slackRows = 3

	// maxLive is the tail of an answer, in bytes, that is rendered again while it grows.
	maxLive = 24 << 10
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
	if address <= c.delivered { // ids sort by time
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
		c.live.printed = ""
	}
	_ = c.repaint(0, above)
}

// unshownUpTo prints the messages that an answer to address takes in.
func (c *chat) unshownUpTo(address string) string {
	for i, m := range c.pending {
		if m.id == address {
			return c.unshown(i + 1)
		}
	}
	return ""
}

// repaint prints above and draws the region as things stand. echo is how many
// rows of an entered line are below the region and go with it.
//
// After the end of the chat there is no region, and only above is printed.
func (c *chat) repaint(echo int, above string) error {
	if c.closed {
		_, err := io.WriteString(c.screen.tty, above)
		return err
	}
	c.screen.look()
	foot := c.foot()
	room := max(c.screen.height-c.inputRows-slackRows-len(foot), 0)
	body, scrolled := c.body(room)
	region := append(body, foot...)
	if most := max(c.screen.height-c.inputRows-slackRows, 0); len(region) > most {
		region = region[len(region)-most:]
	}
	return c.screen.paint(echo, above+scrolled, region)
}

// body renders the answer so far, or a sign that one is to come, in at most
// room rows. Blocks that no longer fit are returned as scrolled, to be printed
// for good.
func (c *chat) body(room int) (lines []string, scrolled string) {
	if !c.busy() {
		return nil, ""
	}
	rest := strings.TrimLeft(c.live.text[len(c.live.printed):], "\n")
	if rest == "" {
		return []string{c.sign()}, ""
	}
	lines = c.liveLines(rest)
	for len(lines) > room {
		cut := firstBlock(rest)
		if cut == 0 || len(rest) > maxLive {
			lines = lines[len(lines)-room:]
			break
		}
		scrolled += c.paragraphs(strings.TrimRight(rest[:cut], "\n"))
		c.live.printed = c.live.text[:len(c.live.text)-len(rest)+cut]
		rest = rest[cut:]
		lines = c.liveLines(rest)
	}
	return lines, scrolled
}

// liveLines renders unfinished markdown to lines of one row each.
func (c *chat) liveLines(text string) []string {
	columns := c.screen.width - 1
	if len(text) > maxLive {
		return wrap(strings.ToValidUTF8(text[len(text)-maxLive/4:], ""), columns)
	}
	return wrap(strings.Join(c.markdown.render(text, c.screen.width), "\n"), columns)
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

// firstBlock returns the offset at which the second top-level block of a markdown
// text begins, so that the text before it can be rendered by itself; 0 if the
// text is one block. It errs towards long blocks: a list is one, with
// everything indented under it.
func firstBlock(md string) int {
	var (
		fence    string // the run of ` or ~ that opened the code block we are in
		blank    bool   // the line before was empty
		started  bool
		listItem bool // the block began as a list
	)
	for at := 0; at < len(md); {
		end := strings.IndexByte(md[at:], '\n')
		if end < 0 {
			end = len(md)
		} else {
			end += at + 1
		}
		line := strings.TrimRight(md[at:end], " \t\n")
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		if started && fence == "" && blank && line != "" && !indented && !(listItem && isListItem(line)) {
			return at
		}
		if !started && line != "" {
			started, listItem = true, isListItem(line)
		}
		if code := strings.TrimLeft(line, " \t"); fence == "" {
			fence, _, _ = markup.OpeningFence(code)
		} else if markup.IsClosingFence(code, fence) {
			fence = ""
		}
		blank = line == ""
		at = end
	}
	return 0
}

func isListItem(line string) bool {
	if rest := strings.TrimLeft(line, "0123456789"); rest != line {
		return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
	}
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ")
}
