package cli

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// vt is a small terminal: what a user would see, scrolled-out lines included.
type vt struct {
	mu            sync.Mutex
	width, height int
	lines         [][]rune // all since the start; the last height are the screen
	row, col      int      // row counts from the first line of all
	nowrap        bool
	held          []byte // an unfinished sequence
	unknown       []string
}

func newVT(width, height int) *vt {
	return &vt{width: width, height: height, lines: make([][]rune, 1)}
}

func (v *vt) size() (int, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.width, v.height
}

func (v *vt) setSize(width, height int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.width, v.height = width, height
}

func (v *vt) Write(p []byte) (int, error) {
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

// escape obeys the sequence that s begins with; 0 when it is incomplete.
func (v *vt) escape(s string) int {
	end := strings.IndexFunc(s[min(2, len(s)):], func(r rune) bool { return r >= '@' && r <= '~' })
	if end < 0 {
		return 0
	}
	args, final := s[2:2+end], s[2+end]
	n := max(1, atoi(args))
	top := max(0, len(v.lines)-v.height)
	switch {
	case s[1] != '[':
		v.unknown = append(v.unknown, s[:3+end])
	case final == 'A':
		v.row = max(top, v.row-n)
	case final == 'G':
		v.col = n - 1
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

func (v *vt) clearRight() {
	if line := v.lines[v.row]; len(line) > v.col {
		v.lines[v.row] = line[:v.col]
	}
}

func (v *vt) put(r rune) {
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
	w := runeWidth(r)
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

func (v *vt) down() {
	v.row++
	if v.row == len(v.lines) {
		v.lines = append(v.lines, nil)
	}
}

// text is everything on the terminal, without empty lines and padding.
func (v *vt) text() string {
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

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
