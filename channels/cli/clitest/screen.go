// Package clitest is a terminal for tests: a screen that shows what a user would
// see, and a pseudo-terminal to run a program in.
package clitest

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Screen is a small terminal emulator. It knows the escape sequences that the line editor
// and the chat use, and keeps the lines that have scrolled out. As in tmux, clearing the whole
// screen scrolls it out. It is safe for concurrent use.
type Screen struct {
	mu            sync.Mutex
	width, height int
	lines         [][]rune // all lines since the start, of which the last height are on the screen
	row, col      int      // place of the cursor; row counts from the first of lines
	out           int      // number of lines that a clearing of the screen has scrolled out
	nowrap        bool
	held          []byte // the beginning of an escape sequence that is not complete
	unknown       []string
}

// NewScreen returns an empty screen of that many columns and rows.
func NewScreen(width, height int) *Screen {
	return &Screen{width: width, height: height, lines: make([][]rune, 1)}
}

// Size returns the columns and rows.
func (v *Screen) Size() (int, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.width, v.height
}

// SetSize changes the columns and rows.
func (v *Screen) SetSize(width, height int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.width, v.height = width, height
}

// Write draws what a program sends to its terminal.
func (v *Screen) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := append(v.held, p...)
	for len(b) > 0 {
		n := 1
		switch {
		case b[0] == 0x1b:
			if n = v.escape(string(b)); n == 0 {
				v.held = append([]byte{}, b...)
				return len(p), nil
			}
		case !utf8.FullRune(b):
			v.held = append([]byte{}, b...)
			return len(p), nil
		default:
			var r rune
			r, n = utf8.DecodeRune(b)
			v.put(r)
		}
		b = b[n:]
	}
	v.held = nil
	return len(p), nil
}

// escape executes the escape sequence at the beginning of s and returns its length, 0 if it
// is incomplete.
func (v *Screen) escape(s string) int {
	end := strings.IndexFunc(s[min(2, len(s)):], func(r rune) bool { return r >= '@' && r <= '~' })
	if end < 0 {
		return 0
	}
	args, final := s[2:2+end], s[2+end]
	n := max(1, atoi(args))
	top := max(v.out, len(v.lines)-v.height)
	switch {
	case s[1] != '[':
		v.unknown = append(v.unknown, s[:3+end])
	case final == 'A':
		v.row = max(top, v.row-n)
	case final == 'G':
		v.col = n - 1
	case final == 'H' && args == "":
		v.row, v.col = top, 0
	case final == 'J' && args == "" && v.row == top && v.col == 0:
		v.out = len(v.lines)
		v.lines = append(v.lines, nil)
		v.row = v.out
	case final == 'J' && args == "":
		v.lines = v.lines[:v.row+1]
		v.clearRight()
	case final == 'K':
		v.clearRight()
	case final == 'm', args == "?2004" && (final == 'h' || final == 'l'):
	case args == "?7":
		v.nowrap = final == 'l'
	default:
		v.unknown = append(v.unknown, s[:3+end])
	}
	return 3 + end
}

func (v *Screen) clearRight() {
	if line := v.lines[v.row]; len(line) > v.col {
		v.lines[v.row] = line[:v.col]
	}
}

func (v *Screen) put(r rune) {
	switch r {
	case '\n':
		v.down()
		return
	case '\r':
		v.col = 0
		return
	case '\b':
		v.col = max(0, min(v.col, v.width-1)-1)
		return
	case 7:
		return
	}
	w := ansi.StringWidth(string(r))
	if v.col+w > v.width {
		if v.nowrap {
			return
		}
		v.down()
		v.col = 0
	}
	line := v.lines[v.row]
	for len(line) < v.col+w {
		line = append(line, ' ')
	}
	if w > 0 {
		line[v.col] = r
	}
	for i := 1; i < w; i++ {
		line[v.col+i] = -1
	}
	v.lines[v.row] = line
	v.col += w
}

func (v *Screen) down() {
	v.row++
	if v.row == len(v.lines) {
		v.lines = append(v.lines, nil)
	}
}

// Text returns everything on the terminal, without empty lines and padding.
func (v *Screen) Text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, line := range v.lines {
		s := strings.TrimRight(strings.ReplaceAll(string(line), "\uFFFD", ""), " ")
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// Unknown returns the sequences that the screen does not know.
func (v *Screen) Unknown() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.unknown)
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
