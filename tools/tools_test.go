package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation/media"
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
	return Tool{Name: name, Call: Text(call)}
}

func TestTimeIsReturnedInTheRequestedZone(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	r := registry(t, CurrentTime(func() time.Time { return noon }, nil))
	for arguments, want := range map[string]string{
		`{"timezone": "Asia/Tokyo"}`: "Wednesday, 2026-07-01 21:00:00 JST (+09:00)",
		``:                           "Wednesday, 2026-07-01 12:00:00 UTC (+00:00)",
		`{"timezone": "Mars/Base"}`:  `error: "Mars/Base" is no IANA time zone such as Europe/Berlin`,
	} {
		if got, _ := r.Call(t.Context(), "current_time", arguments, time.Minute); got.Text != want {
			t.Errorf("%s: got %q, want %q", arguments, got.Text, want)
		}
	}
}

func TestToolFailureIsReportedToTheModel(t *testing.T) {
	t.Parallel()
	r := registry(t,
		tool("broken", func(context.Context, json.RawMessage) (string, error) { return "", errors.New("no such city") }),
		tool("panics", func(context.Context, json.RawMessage) (string, error) { panic("secret detail") }),
		tool("hangs", func(context.Context, json.RawMessage) (string, error) { select {} }),
		tool("waits", func(ctx context.Context, _ json.RawMessage) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
	)
	for _, c := range []struct {
		name, arguments string
		timeout         time.Duration
		want            string
	}{
		{"broken", "{}", time.Hour, "error: no such city"},
		{"broken", `{"a":`, time.Hour, "error: the arguments of broken are not valid JSON"},
		{"panics", "{}", time.Hour, "error: panics failed inside"},
		{"hangs", "{}", time.Millisecond, "error: hangs did not finish within 1ms"},
		{"waits", "{}", time.Millisecond, "error: waits did not finish within 1ms"},
		{"missing", "{}", time.Hour, `error: there is no tool "missing"; the tools are: broken, panics, hangs, waits`},
	} {
		got, err := r.Call(t.Context(), c.name, c.arguments, c.timeout)
		if got.Text != c.want || err == nil {
			t.Errorf("%s(%s): got %q, %v; want %q and an error for the log", c.name, c.arguments, got.Text, err, c.want)
		}
	}
}

func TestHugeResultIsCut(t *testing.T) {
	t.Parallel()
	r := registry(t, tool("big", func(context.Context, json.RawMessage) (string, error) {
		return strings.Repeat("é", maxResult), nil
	}))
	got, err := r.Call(t.Context(), "big", "{}", time.Minute)
	if err != nil || len(got.Text) > maxResult+100 || !strings.HasSuffix(got.Text, "[cut: the result has 524288 bytes]") {
		t.Fatalf("got %d bytes ending in %q, %v", len(got.Text), got.Text[len(got.Text)-40:], err)
	}
}

func TestTwoToolsOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := NewRegistry(Tool{Name: "a"}, Tool{Name: "a"}); err == nil {
		t.Fatal("two tools of one name were taken")
	}
}

// Pictures of a result are kept under names that the model can write in its answer.
func TestPicturesOfAResultAreNamed(t *testing.T) {
	t.Parallel()
	png := func(n int) media.Image { return media.Image{Data: []byte("\x89PNG\r\n\x1a\n" + fmt.Sprint(n))} }
	given := []media.Image{{Name: "../my chart.png", Data: png(1).Data}, {Data: []byte("<svg onload=alert(1)>"), MediaType: "image/png"}}
	for n := range 12 {
		given = append(given, png(n))
	}
	r := registry(t, Tool{Name: "draw", Call: func(context.Context, json.RawMessage) (Result, error) {
		return Result{Text: "drawn", Pictures: given}, nil
	}})
	got, err := r.Call(t.Context(), "draw", "{}", time.Minute)
	if err != nil || len(got.Pictures) != maxPictures || !strings.Contains(got.Text, "[6 pictures left out: ") {
		t.Fatalf("%d pictures kept, %v: %s", len(got.Pictures), err, got.Text)
	}
	names := map[string]bool{}
	for _, picture := range got.Pictures {
		names[picture.Name] = true
		if !strings.Contains(got.Text, "[picture "+picture.Name+": ") || picture.MediaType != "image/png" || picture.Size != len(picture.Data) {
			t.Errorf("kept as %s, %s; the model reads %s", picture.Name, picture.MediaType, got.Text)
		}
	}
	if name := got.Pictures[0].Name; len(names) != maxPictures || !strings.HasPrefix(name, "my-chart-") || !strings.HasSuffix(name, ".png") {
		t.Errorf("the names are %v, the first is %s", names, name)
	}
}
