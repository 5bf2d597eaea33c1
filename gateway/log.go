package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"sync"

	"parley/config"
	"parley/conversation/transcript"
)

// newLog returns a log that writes to a destination until writeAboveInput moves it.
func newLog(cfg config.Log, to io.Writer) (*slog.Logger, *logSwitch) {
	out := &logSwitch{out: to}
	if cfg.Level != nil {
		out.asked = out.level.UnmarshalText([]byte(*cfg.Level)) == nil
	}
	options := &slog.HandlerOptions{Level: &out.level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), out
	}
	return slog.New(slog.NewTextHandler(out, options)), out
}

// logSwitch is the destination of the log, which can change.
type logSwitch struct {
	level slog.LevelVar // info, unless the operator asked for another
	asked bool          // the operator set the level
	mu    sync.Mutex
	out   io.Writer
}

func (l *logSwitch) Write(b []byte) (int, error) {
	l.mu.Lock()
	out := l.out
	l.mu.Unlock()
	if _, err := out.Write(escaped(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escaped returns a log line without characters that control a terminal. slog's JSON
// handler leaves some of them in.
func escaped(line []byte) []byte {
	for _, b := range line {
		if b < ' ' && b != '\n' || b > '~' {
			text, end := bytes.CutSuffix(line, []byte("\n"))
			line = []byte(transcript.Escape(string(text)))
			if end {
				line = append(line, '\n')
			}
			break
		}
	}
	return line
}

// writeAboveInput moves the log into a terminal chat. There it shows only warnings
// and errors, unless the operator set the level.
func (l *logSwitch) writeAboveInput(out io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	if !l.asked {
		l.level.Set(slog.LevelWarn)
	}
}
