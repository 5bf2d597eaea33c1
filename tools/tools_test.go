package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func registry(t *testing.T, list ...Tool) *Registry {
	t.Helper()
	r, err := NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tool(name string, call func(context.Context, json.RawMessage) (string, error)) Tool {
	return Tool{Name: name, Call: call}
}

func TestTimeIsToldInTheZoneAskedFor(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	r := registry(t, CurrentTime(func() time.Time { return noon }))
	for arguments, want := range map[string]string{
		`{"timezone": "Asia/Tokyo"}`: "Wednesday, 2026-07-01 21:00:00 JST (+09:00)",
		``:                           "Wednesday, 2026-07-01 12:00:00 UTC (+00:00)",
		`{"timezone": "Mars/Base"}`:  `error: "Mars/Base" is no IANA time zone such as Europe/Berlin`,
	} {
		if got, _ := r.Call(t.Context(), "current_time", arguments, time.Minute); got != want {
			t.Errorf("%s: got %q, want %q", arguments, got, want)
		}
	}
}

func TestTroubleOfAToolIsToldToTheModel(t *testing.T) {
	t.Parallel()
	r := registry(t,
		tool("broken", func(context.Context, json.RawMessage) (string, error) { return "", errors.New("no such city") }),
		tool("panics", func(context.Context, json.RawMessage) (string, error) { panic("secret detail") }),
		tool("hangs", func(context.Context, json.RawMessage) (string, error) { select {} }),
		tool("waits", func(ctx context.Context, _ json.RawMessage) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
	)
	for _, c := range []struct{ name, arguments, want string }{
		{"broken", "{}", "error: no such city"},
		{"broken", `{"a":`, "error: the arguments of broken are not valid JSON"},
		{"panics", "{}", "error: panics failed inside"},
		{"hangs", "{}", "error: hangs did not finish within 1ms"},
		{"waits", "{}", "error: waits did not finish within 1ms"},
		{"missing", "{}", `error: there is no tool "missing"; the tools are: broken, panics, hangs, waits`},
	} {
		got, err := r.Call(t.Context(), c.name, c.arguments, time.Millisecond)
		if got != c.want || err == nil {
			t.Errorf("%s(%s): got %q, %v; want %q and an error for the log", c.name, c.arguments, got, err, c.want)
		}
	}
}

func TestHugeResultIsCut(t *testing.T) {
	t.Parallel()
	r := registry(t, tool("big", func(context.Context, json.RawMessage) (string, error) {
		return strings.Repeat("é", maxResult), nil
	}))
	got, err := r.Call(t.Context(), "big", "{}", time.Minute)
	if err != nil || len(got) > maxResult+100 || !strings.HasSuffix(got, "[cut: the result was longer]") {
		t.Fatalf("got %d bytes ending in %q, %v", len(got), got[len(got)-40:], err)
	}
}

func TestTwoToolsOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := NewRegistry(Tool{Name: "a"}, Tool{Name: "a"}); err == nil {
		t.Fatal("two tools of one name were taken")
	}
}
