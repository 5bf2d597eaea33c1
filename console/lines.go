package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"time"

	"parley/plaintext"
)

// keptLines is how many lines of the log are kept, and maxLine how many bytes
// of one.
const (
	keptLines = 1000
	maxLine   = 8 << 10
)

// Line is a line of the log.
type Line struct {
	N     int64 // from 1, in the order of the log
	At    time.Time
	Level slog.Level
	Text  string // the message
	More  string // its attributes: key=value
}

// Lines is a log handler that keeps the last 1,000 lines in memory. It skips
// lines below the level info, so that it costs next to nothing.
type Lines struct {
	Run string // differs from process to process, so that the numbers of lines of two processes are not confused

	secrets *plaintext.Redactor

	mu      sync.Mutex
	ring    []Line                     // grows to keptLines, then the oldest is at newest % keptLines
	n       int64                      // number of the newest line
	more    bytes.Buffer               // attributes of the line that is being added
	readers map[chan struct{}]struct{} // the channels that Subscribe has returned
}

// NewLines returns an empty log. It hides secrets in its lines, should one be
// logged by mistake.
func NewLines(secrets *plaintext.Redactor) *Lines {
	return &Lines{Run: rand.Text()[:8], secrets: secrets, readers: map[chan struct{}]struct{}{}}
}

// Beside returns a handler that passes records to another one, and keeps them
// here.
func (l *Lines) Beside(other slog.Handler) slog.Handler {
	attributes := slog.NewTextHandler(&l.more, &slog.HandlerOptions{ReplaceAttr: attributesOnly})
	return beside{lines: l, other: other, attributes: attributes}
}

// attributesOnly removes the attributes for which a Line has fields.
func attributesOnly(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// add stores a record with its attributes as the handler writes them.
func (l *Lines) add(ctx context.Context, r slog.Record, attributes slog.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more.Reset()
	_ = attributes.Handle(ctx, r) // into memory
	l.n++
	line := Line{N: l.n, At: r.Time, Level: r.Level, Text: l.shown(r.Message), More: l.shown(strings.TrimSpace(l.more.String()))}
	if len(l.ring) < keptLines {
		l.ring = append(l.ring, line)
	} else {
		l.ring[(l.n-1)%keptLines] = line
	}
	for reader := range l.readers {
		select {
		case reader <- struct{}{}:
		default: // the reader has not taken the last signal yet
		}
	}
}

// Subscribe returns a channel that gets a signal when a line is added, until
// unsubscribe is called. Lines that come in quick succession may share a signal.
func (l *Lines) Subscribe() (news <-chan struct{}, unsubscribe func()) {
	reader := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[reader] = struct{}{}
	return reader, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.readers, reader)
	}
}

func (l *Lines) shown(text string) string {
	text = l.secrets.Hide(text)
	if len(text) > maxLine {
		return strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return text
}

// After returns the lines after number n, the oldest first.
func (l *Lines) After(n int64) []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Line
	for at := max(n, l.n-int64(len(l.ring))) + 1; at <= l.n; at++ {
		list = append(list, l.ring[(at-1)%keptLines])
	}
	return list
}

// beside is a handler that passes records on to another one.
type beside struct {
	lines             *Lines
	other, attributes slog.Handler
}

func (b beside) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || b.other.Enabled(ctx, level)
}

func (b beside) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		b.lines.add(ctx, r, b.attributes)
	}
	if !b.other.Enabled(ctx, r.Level) {
		return nil
	}
	return b.other.Handle(ctx, r)
}

func (b beside) WithAttrs(attrs []slog.Attr) slog.Handler {
	return beside{b.lines, b.other.WithAttrs(attrs), b.attributes.WithAttrs(attrs)}
}

func (b beside) WithGroup(name string) slog.Handler {
	return beside{b.lines, b.other.WithGroup(name), b.attributes.WithGroup(name)}
}
