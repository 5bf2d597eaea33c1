package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxConversation bounds one conversation of a file, in bytes. Reading one takes
// several times its size in memory. Tests make it smaller.
var maxConversation = 64 << 20

// elements reads the elements of a JSON array one by one. It looks for their ends
// alone: an element that is too large goes by without being held in memory.
type elements struct {
	in     *bufio.Reader
	offset int64 // bytes read
	begun  bool
}

// errTooLarge says that a conversation was passed over.
var errTooLarge = errors.New("found more than 64 MiB, allowed: up to that")

// next returns the next element. Its error is io.EOF behind the last one, and
// errTooLarge for one that was passed over, behind which the next one follows.
// Any other error ends the file.
func (e *elements) next() ([]byte, error) {
	c, err := e.skipSpace()
	if err != nil {
		return nil, err
	}
	switch {
	case c == ']' && e.begun:
		return nil, io.EOF
	case !e.begun && c != '[':
		return nil, fmt.Errorf("found %c at the beginning, allowed: [, which begins an array of conversations", c)
	case !e.begun || c == ',':
		first := !e.begun
		e.begun = true
		if c, err = e.skipSpace(); err != nil {
			return nil, err
		}
		if first && c == ']' {
			return nil, io.EOF
		}
	default:
		return nil, fmt.Errorf("found %q, allowed: a comma or ]", c)
	}
	return e.value(c)
}

// value reads the value that begins with c.
func (e *elements) value(c byte) ([]byte, error) {
	raw, large := []byte{c}, false
	depth, quoted := nesting(0, c), c == '"'
	for escaped := false; quoted || depth > 0 || !isEnd(e.peek()); {
		var err error
		if c, err = e.read(); err != nil {
			return nil, err
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted:
			depth = nesting(depth, c)
		}
		if large = large || len(raw) == maxConversation; large {
			raw = nil
			continue
		}
		raw = append(raw, c)
	}
	if large {
		return nil, errTooLarge
	}
	return raw, nil
}

func nesting(depth int, c byte) int {
	switch c {
	case '{', '[':
		return depth + 1
	case '}', ']':
		return depth - 1
	}
	return depth
}

// isEnd reports whether a byte can't be part of a value, outside of brackets and
// quotes; 0 is the end of the file.
func isEnd(c byte) bool { return c == 0 || c == ',' || c == ']' || isSpace(c) }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// peek returns the next byte, 0 at the end of the file.
func (e *elements) peek() byte {
	next, err := e.in.Peek(1)
	if err != nil {
		return 0
	}
	return next[0]
}

// read returns the next byte. The end of the file comes too early here.
func (e *elements) read() (byte, error) {
	c, err := e.in.ReadByte()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		e.offset++
	}
	return c, err
}

func (e *elements) skipSpace() (byte, error) {
	for {
		if c, err := e.read(); err != nil || !isSpace(c) {
			return c, err
		}
	}
}
