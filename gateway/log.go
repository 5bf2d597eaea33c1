package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"os"

	"parley/config"
	"parley/conversation/transcript"
	"parley/plaintext"
)

// newLog returns a log that writes to a destination, without secrets.
func newLog(cfg config.Log, to io.Writer, secrets *plaintext.Redactor) *slog.Logger {
	level := slog.LevelInfo
	if cfg.Level != nil {
		_ = level.UnmarshalText([]byte(*cfg.Level)) // the configuration allows no others
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(escaper{to, secrets}, options))
	}
	return slog.New(slog.NewTextHandler(escaper{to, secrets}, options))
}

// escaper writes log lines without secrets, and without characters that control a terminal.
type escaper struct {
	to      io.Writer
	secrets *plaintext.Redactor
}

func (e escaper) Write(line []byte) (int, error) {
	if _, err := e.to.Write(escaped([]byte(e.secrets.Hide(string(line))))); err != nil {
		return 0, err
	}
	return len(line), nil
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

// maxLogFile is the size at which a log file is put aside at the next start.
const maxLogFile = 10 << 20

// openLogFile opens the log of a chat in a terminal, a file of the user's state folder:
// its lines must not stand above or in the chat. Where there can be no file, the path is
// "" and the lines are dropped.
func openLogFile(getenv func(string) string) (to io.Writer, path string) {
	path = statePath(getenv, "gateway.log")
	if path == "" {
		return io.Discard, ""
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogFile {
		if os.Rename(path, path+".1") != nil {
			return io.Discard, ""
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return io.Discard, ""
	}
	return file, path // closed by the end of the process: the log may have lines until then
}
