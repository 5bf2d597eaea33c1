package llm

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readEvents returns a body as go-openai reads it.
func readEvents(t *testing.T, body io.Reader) string {
	t.Helper()
	_, limits := newLimits(t.Context(), time.Hour, time.Hour)
	defer limits.stop()
	e := newEvents(io.NopCloser(body), limits)
	lines, err := io.ReadAll(e)
	if err != nil {
		return string(lines) + err.Error()
	}
	return string(lines)
}

// A body may arrive in any pieces, also with CR and LF of one line end in different ones.
func FuzzStreamReadsTheSameInAnyPieces(f *testing.F) {
	for _, body := range []string{
		"data: {\"a\":1}\n\ndata: [DONE]\n\n",
		"\ufeff: comment\r\ndata: {\r\ndata: \"a\":1}\r\n\r\ndata: [DONE]\r\n\r\n",
		"event: error\rdata: {}\r\rdata: {\"error\":1}\r\r",
		"data: {\r\rdata\r\ndata: }\n\r",
		"{\r\n\"a\":1}",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		whole := readEvents(t, strings.NewReader(body))
		if pieces := readEvents(t, iotest.OneByteReader(strings.NewReader(body))); pieces != whole {
			t.Errorf("%q is read as %q in pieces, as %q whole", body, pieces, whole)
		}
		for line := range strings.Lines(whole) {
			if strings.HasSuffix(line, "\n") && !strings.HasPrefix(line, "data: ") {
				t.Errorf("%q is read as %q, which is no line of data", body, line)
			}
		}
	})
}

// An event may have any number of lines.
func TestEventOfManyLinesIsReadWhole(t *testing.T) {
	t.Parallel()
	body := "data: {\"a\":[\n" + strings.Repeat("data: 1,\n", 1<<18) + "data: 1]}\n\ndata: [DONE]\n"
	want := "data: {\"a\":[" + strings.Repeat("1,", 1<<18) + "1]}\ndata: [DONE]\n"
	if got := readEvents(t, bytes.NewBufferString(body)); got != want {
		t.Errorf("%d bytes are read, want %d", len(got), len(want))
	}
}
