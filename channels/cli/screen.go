package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// tty is the way to the terminal. It ends lines as a terminal in raw mode wants them.
type tty struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *tty) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.w.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))
	return len(b), err
}

// screen is what the chat shows: lines that stay, which scroll away like any output, and
// below them a region and the line being edited, which are drawn anew each time. It is not
// safe for concurrent use.
type screen struct {
	tty  *tty
	size func() (width, height int)

	width, height int   // size of the terminal when it was last asked for
	drawn         []int // the columns of each line of the region on the screen
	typed         []int // the columns of each row of the line being edited, above the cursor
	column        int   // column of the cursor
}

// input is the line being edited, as it is drawn.
type input struct {
	rows        []string
	row, column int // place of the cursor
}

// look asks for the terminal's size.
func (s *screen) look() {
	width, height := s.size()
	s.width, s.height = max(width, 2*tabWidth), max(height, 2)
}

// maxInput is how many rows of the line being edited are shown.
func (s *screen) maxInput() int { return s.height - 1 }

// input breaks the line being edited into rows, behind the prompt. Of a line that is taller
// than the screen it takes the rows around the cursor.
func (s *screen) input(prompt string, line []rune, pos int) input {
	rows, row, column := layout(promptWidth, line, pos, s.width)
	rows[0] = prompt + rows[0]
	if most := s.maxInput(); len(rows) > most {
		top := min(max(row-most/2, 0), len(rows)-most)
		rows, row = rows[top:top+most], row-top
	}
	return input{rows, row, column}
}

// rowsOf returns the number of rows that lines cover, even if the terminal has been made
// narrower and has wrapped them again.
func (s *screen) rowsOf(columns []int) int {
	rows := 0
	for _, w := range columns {
		rows += max(1, (w+s.width-1)/s.width)
	}
	return rows
}

// paint takes the region and the line being edited away, prints above so that it stays,
// and draws region and in.
func (s *screen) paint(above string, region []string, in input) error {
	var b strings.Builder
	s.erase(&b, s.rowsOf(s.drawn))
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
	s.draw(&b, in)
	_, err := s.tty.Write([]byte(b.String()))
	return err
}

// paintInput draws the line being edited anew, and leaves the region as it is.
func (s *screen) paintInput(in input) error {
	var b strings.Builder
	s.erase(&b, 0)
	s.draw(&b, in)
	_, err := s.tty.Write([]byte(b.String()))
	return err
}

// erase takes away the line being edited, and so many rows above it. It clears from the second
// column on: from the first one of the screen, tmux would keep all of it in the scrollback.
func (s *screen) erase(b *strings.Builder, above int) {
	if up := min(above+s.rowsOf(s.typed)+s.column/s.width, s.height-1); up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\x1b[G\x1b[K\x1b[2G\x1b[J\x1b[G")
}

// draw draws the line being edited, and puts the cursor into it.
func (s *screen) draw(b *strings.Builder, in input) {
	s.typed, s.column = s.typed[:0], in.column
	if len(in.rows) == 0 {
		return
	}
	b.WriteString(strings.Join(in.rows, "\n"))
	if up := len(in.rows) - 1 - in.row; up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	fmt.Fprintf(b, "\x1b[%dG", in.column+1)
	for _, row := range in.rows[:in.row] {
		s.typed = append(s.typed, textWidth(row))
	}
}

// clear empties the screen.
func (s *screen) clear() error {
	s.drawn, s.typed, s.column = s.drawn[:0], s.typed[:0], 0
	_, err := s.tty.Write([]byte("\x1b[H\x1b[J"))
	return err
}
