package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"

	"parley/config"
	"parley/conversation/transcript"
)

// newLog logs to standard error, until toTerminal moves it above the prompt.
func newLog(cfg config.Log) (*slog.Logger, *logSwitch) {
	out := &logSwitch{out: os.Stderr}
	if cfg.Level != nil {
		out.asked = out.level.UnmarshalText([]byte(*cfg.Level)) == nil
	}
	options := &slog.HandlerOptions{Level: &out.level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), out
	}
	return slog.New(slog.NewTextHandler(out, options)), out
}

// logSwitch is where the log goes.
type logSwitch struct {
	level slog.LevelVar // info, unless the operator asked for another
	asked bool
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

// escaped is a line of the log that steers no terminal, whatever stands in it.
// slog escapes what does not print only as text, and not all of it as JSON.
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

// toTerminal prints the log into a chat, where only what needs attention is
// welcome, unless the operator asked for a level.
func (l *logSwitch) toTerminal(out io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	if !l.asked {
		l.level.Set(slog.LevelWarn)
	}
}
