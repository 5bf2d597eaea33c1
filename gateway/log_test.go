package gateway

import (
	"bytes"
	"log/slog"
	"testing"

	"parley/config"
)

// What an operator asks to be logged is logged, also while somebody chats; who
// asked for nothing is not disturbed there.
func TestTheLogInATerminalObeysTheConfiguration(t *testing.T) {
	for level, want := range map[string]string{"": "warn", "debug": "debug info warn", "info": "info warn", "warn": "warn", "error": ""} {
		var cfg config.Log
		if level != "" {
			cfg.Level = &level
		}
		log, logs := newLog(cfg)
		var terminal bytes.Buffer
		logs.toTerminal(&terminal)
		log.Debug("debug")
		log.Info("info")
		log.Warn("warn")
		var got []byte
		for line := range bytes.Lines(terminal.Bytes()) {
			_, message, _ := bytes.Cut(bytes.TrimSpace(line), []byte("msg="))
			got = append(append(got, message...), ' ')
		}
		if got := string(bytes.TrimSpace(got)); got != want {
			t.Errorf("level %q logs %q into a chat, want %q", level, got, want)
		}
	}
}

func TestTheLogIsForPeopleOrForMachines(t *testing.T) {
	for format, begin := range map[string]byte{"text": 't', "json": '{'} {
		log, logs := newLog(config.Log{Format: format})
		var terminal bytes.Buffer
		logs.toTerminal(&terminal)
		log.Warn("something", slog.Int("n", 1))
		if got := terminal.Bytes(); len(got) == 0 || got[0] != begin {
			t.Errorf("%s: %s", format, got)
		}
	}
}
