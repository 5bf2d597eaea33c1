package cli

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
)

// cursorQuery is how the line editor asks a terminal where its cursor is.
const cursorQuery = "\x1b[6n"

// tty is the way to the terminal. It keeps the editor's query for itself,
// ends lines as a terminal in raw mode wants them, and can gather several
// writes into one, so that nothing half-drawn is ever seen.
type tty struct {
	onQuery func()

	mu     sync.Mutex
	w      io.Writer
	gather bool
	buf    bytes.Buffer
}

func (t *tty) Write(b []byte) (int, error) {
	if string(b) == cursorQuery {
		t.onQuery()
		return len(b), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))
	if t.gather {
		return len(b), nil
	}
	return len(b), t.flush()
}

// flush needs mu.
func (t *tty) flush() error {
	_, err := t.w.Write(t.buf.Bytes())
	t.buf.Reset()
	return err
}

func (t *tty) hold() {
	t.mu.Lock()
	t.gather = true
	t.mu.Unlock()
}

func (t *tty) release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gather = false
	return t.flush()
}

// screen is what the chat shows above the line being edited: lines that stay,
// which scroll away like any output, and below them a region that is drawn
// anew each time. It is not safe for concurrent use.
type screen struct {
	tty    *tty
	editor io.Writer // takes the prompt away, writes, and puts the prompt back
	size   func() (width, height int)
	resize func() // tells the editor that the size has changed

	width, height int   // as of the last look
	drawn         []int // the columns of each line of the region on the screen
}

// look asks for the terminal's size.
func (s *screen) look() {
	width, height := s.size()
	width, height = max(width, 2*tabWidth), max(height, 2)
	if width == s.width && height == s.height {
		return
	}
	s.width, s.height = width, height
	if s.resize != nil {
		s.resize()
	}
}

// regionRows returns the number of rows that the region covers, even if the terminal has
// been made narrower and has wrapped it again.
func (s *screen) regionRows() int {
	rows := 0
	for _, w := range s.drawn {
		rows += max(1, (w+s.width-1)/s.width)
	}
	return min(rows, s.height-1)
}

// paint takes the region away, and also the echo rows of an entered line below
// it, prints above so that it stays, and draws region.
func (s *screen) paint(echo int, above string, region []string) error {
	var b strings.Builder
	if up := min(s.regionRows()+echo, s.height-1); up > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(up) + "A")
	}
	b.WriteString("\x1b[G\x1b[J")
	if above == "" && len(region) == 0 {
		// The editor reckons the prompt's column from what is written: text
		// since the last line end, with everything from an escape to the next
		// "m" left out. This makes nothing of it.
		b.WriteString("\x1b[m")
	}
	b.WriteString(above)
	if above != "" && !strings.HasSuffix(above, "\n") {
		b.WriteByte('\n')
	}
	s.drawn = s.drawn[:0]
	if len(region) > 0 {
		// Without automatic wrapping every line is one row, whatever the
		// terminal thinks of the width of a glyph.
		b.WriteString("\x1b[?7l")
		for i, line := range region {
			b.WriteString(line)
			if i == len(region)-1 {
				b.WriteString("\x1b[?7h")
			}
			b.WriteByte('\n')
			s.drawn = append(s.drawn, min(textWidth(line), s.width))
		}
	}
	s.tty.hold()
	_, err := io.WriteString(s.editor, b.String())
	if ferr := s.tty.release(); err == nil {
		err = ferr
	}
	return err
}

// forget leaves the region on the screen as if it had been printed to stay.
func (s *screen) forget() { s.drawn = s.drawn[:0] }
