package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"parley/config"
)

// Lines of the configured level are logged, also during a terminal chat.
func TestLogHasTheConfiguredLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"": "info warn", "debug": "debug info warn", "info": "info warn", "warn": "warn", "error": ""} {
		var cfg config.Log
		if level != "" {
			cfg.Level = &level
		}
		var written bytes.Buffer
		log := newLog(cfg, &written, nil)
		log.Debug("debug")
		log.Info("info")
		log.Warn("warn")
		var got []byte
		for line := range bytes.Lines(written.Bytes()) {
			_, message, _ := bytes.Cut(bytes.TrimSpace(line), []byte("msg="))
			got = append(append(got, message...), ' ')
		}
		if got := string(bytes.TrimSpace(got)); got != want {
			t.Errorf("level %q logs %q, want %q", level, got, want)
		}
	}
}

func TestLogIsTextOrJSON(t *testing.T) {
	t.Parallel()
	for format, begin := range map[string]byte{"text": 't', "json": '{'} {
		var terminal bytes.Buffer
		log := newLog(config.Log{Format: format}, &terminal, nil)
		log.Warn("something", slog.Int("n", 1))
		if got := terminal.Bytes(); len(got) == 0 || got[0] != begin {
			t.Errorf("%s: %s", format, got)
		}
	}
}

// Names of strangers and error messages of servers are logged without control characters.
func TestLogLinesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	hostile := "a\x1b[2J\u009b31m\u202eb\u2066c\x7f\u0085\U000e0041é\xff"
	for _, format := range []string{"text", "json"} {
		var terminal bytes.Buffer
		log := newLog(config.Log{Format: format}, &terminal, nil)
		log.Warn(hostile, hostile, hostile, "error", errors.New(hostile), "any", []string{hostile})
		line := strings.TrimSuffix(terminal.String(), "\n")
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }) || !strings.Contains(line, "é") {
			t.Errorf("%s: %q", format, line)
		}
		var read map[string]any
		if err := json.Unmarshal(terminal.Bytes(), &read); format == "json" && (err != nil || read["msg"] != strings.ToValidUTF8(hostile, "\uFFFD")) {
			t.Errorf("%v: %q", err, line)
		}
	}
}
