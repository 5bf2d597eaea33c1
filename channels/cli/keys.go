package cli

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"parley/plaintext"
)

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"

	// pasteMark is the key that the editor is given in place of a paste.
	pasteMark = '\uE0F0'

	interruptKey = 0x03

	// escapeTimeout is how long Esc may begin a sequence, or Alt with the next key, as in readline.
	escapeTimeout = 500 * time.Millisecond
)

// newlineKeys are what terminals send for Alt-Enter, and for Shift-Enter where
// they can tell it from Enter.
var newlineKeys = []string{"\x1b\r", "\x1b\n", "\x1b[13;2u", "\x1b[27;2;13~"}

// keyReader filters what the terminal sends to the line editor. It turns each
// bracketed paste into one pasteMark, drops an Esc that nothing follows soon, and sends Ctrl-C
// when the input or the channel ends, so that a half-typed line is not entered.
type keyReader struct {
	chunks chan []byte   // bytes from the terminal; closed at its end
	stop   chan struct{} // closed by end
	once   sync.Once

	// Read's own, one caller at a time.
	out     bytes.Buffer // keys that the editor has not read yet
	raw     []byte       // bytes of an unfinished key or paste
	pasting bool

	mu     sync.Mutex
	pastes []string // pastes, in the order of their marks in the input
	ended  bool
}

// newKeyReader reads r in a goroutine. A read of a terminal can't be interrupted,
// so that goroutine ends with the next byte after end, or with the process.
func newKeyReader(r io.Reader) *keyReader {
	k := &keyReader{
		chunks: make(chan []byte),
		stop:   make(chan struct{}),
	}
	go k.pump(r)
	return k
}

func (k *keyReader) pump(r io.Reader) {
	defer close(k.chunks)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			select {
			case k.chunks <- bytes.Clone(buf[:n]):
			case <-k.stop:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// end makes Read return Ctrl-C from now on.
func (k *keyReader) end() { k.once.Do(func() { close(k.stop) }) }

// over reports whether the input has ended.
func (k *keyReader) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended
}

// takePaste returns the text of the oldest mark that was not taken yet.
func (k *keyReader) takePaste() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pastes) == 0 {
		return ""
	}
	s := k.pastes[0]
	k.pastes = k.pastes[1:]
	return s
}

func (k *keyReader) Read(p []byte) (int, error) {
	for k.out.Len() == 0 {
		var alone <-chan time.Time
		if !k.pasting && string(k.raw) == "\x1b" {
			alone = time.After(escapeTimeout)
		}
		select {
		case <-alone:
			k.raw = nil
		case <-k.stop:
			k.finish()
		case chunk, ok := <-k.chunks:
			if !ok {
				k.finish()
				break
			}
			k.raw = append(k.raw, chunk...)
			k.translate()
		}
	}
	return k.out.Read(p)
}

func (k *keyReader) finish() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.out.WriteByte(interruptKey)
}

// translate moves what it understands of raw to out. A sequence that may continue
// in the next chunk stays.
func (k *keyReader) translate() {
	for len(k.raw) > 0 {
		if k.pasting {
			if !k.takeBody() {
				return
			}
			continue
		}
		i := bytes.IndexByte(k.raw, '\x1b')
		if i < 0 {
			i = len(k.raw)
		}
		k.out.Write(k.raw[:i])
		k.raw = k.raw[i:]
		if len(k.raw) > 0 && !k.takeEscape() {
			return
		}
	}
}

// takeEscape handles the escape sequence that raw begins with, and returns false
// when it is incomplete.
func (k *keyReader) takeEscape() bool {
	s := string(k.raw[:min(len(k.raw), 16)])
	if strings.HasPrefix(s, pasteStart) {
		k.raw, k.pasting = k.raw[len(pasteStart):], true
		return true
	}
	for _, key := range newlineKeys {
		if strings.HasPrefix(s, key) {
			k.raw = k.raw[len(key):]
			k.addPaste("\n")
			return true
		}
	}
	for _, key := range append([]string{pasteStart}, newlineKeys...) {
		if strings.HasPrefix(key, s) {
			return false
		}
	}
	k.out.WriteByte('\x1b')
	k.raw = k.raw[1:]
	return true
}

// takeBody looks for the end of the paste, and returns false when it has not come
// yet.
func (k *keyReader) takeBody() bool {
	i := bytes.Index(k.raw, []byte(pasteEnd))
	if i < 0 {
		return false
	}
	k.addPaste(plaintext.ForTerminal(string(k.raw[:i])))
	k.raw, k.pasting = k.raw[i+len(pasteEnd):], false
	return true
}

func (k *keyReader) addPaste(s string) {
	if s == "" {
		return
	}
	k.mu.Lock()
	k.pastes = append(k.pastes, s)
	k.mu.Unlock()
	k.out.Write(utf8.AppendRune(nil, pasteMark))
}
