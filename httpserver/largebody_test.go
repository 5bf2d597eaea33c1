package httpserver_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/httpserver"
	"parley/internal/waittest"
)

// TestLargeBodiesShareTheMemory sends many uploads at once: the memory of all handlers together stays
// within the bound, and all uploads are accepted.
func TestLargeBodiesShareTheMemory(t *testing.T) {
	t.Parallel()
	const size, uploads, most = 12 << 20, 16, 48 << 20
	var held, peak atomic.Int64
	folder := t.TempDir()
	s := start(t, httpserver.Deps{Folder: folder}, route("POST /file", httpserver.Program, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			httpserver.BodyProblem(w, r, err)
			return
		}
		defer held.Add(-int64(len(data)))
		for now := held.Add(int64(len(data))); ; {
			if was := peak.Load(); now <= was || peak.CompareAndSwap(was, now) {
				break
			}
		}
		fmt.Fprint(w, len(data))
	}, httpserver.MaxBody(24<<20)))
	text := strings.Repeat("x", size)
	var sending sync.WaitGroup
	for range uploads {
		sending.Go(func() {
			if got := s.send(program(t), "POST", "/file", body(text)); got.body != fmt.Sprint(size) {
				t.Errorf("got %d %q, want the whole body taken", got.StatusCode, got.body)
			}
		})
	}
	sending.Wait()
	if peak.Load() > most {
		t.Errorf("%d bytes of bodies were in memory at once, want at most %d", peak.Load(), most)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
}

// TestSlowAndWaitingRequestsHoldUpNoUpload has clients that never finish sending, and handlers that wait:
// further uploads are accepted all the same.
func TestSlowAndWaitingRequestsHoldUpNoUpload(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	waiting, answered := make(chan struct{}, 8), make(chan struct{})
	s := start(t, httpserver.Deps{Folder: t.TempDir()}, route("POST /file", httpserver.Program, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			httpserver.BodyProblem(w, r, err)
			return
		}
		httpserver.BodyDone(r.Context())
		if r.URL.RawQuery == "wait" {
			waiting <- struct{}{}
			<-answered
		}
	}, httpserver.MaxBody(24<<20)))
	answer := opener(t, answered)
	for range 5 {
		s.dial(fmt.Sprintf("POST /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\nthe beginning", size))
	}
	text := strings.Repeat("x", size)
	var sending sync.WaitGroup
	for range 5 {
		sending.Go(func() { s.send(program(t), "POST", "/file?wait", body(text)).expect(t, 200) })
	}
	for range 5 {
		waittest.Receive(t, waiting, "the upload")
	}
	s.send(program(t), "POST", "/file", body(text)).expect(t, 200)
	answer()
	sending.Wait()
}

// TestUploadsWithoutRoomOnTheDiskAreRefusedInWords has no folder to put bodies in.
func TestUploadsWithoutRoomOnTheDiskAreRefusedInWords(t *testing.T) {
	t.Parallel()
	s := start(t, httpserver.Deps{Folder: t.TempDir() + "/gone"}, route("POST /file", httpserver.Program, answerBody, httpserver.MaxBody(4<<20)))
	got := s.send(program(t), "POST", "/file", body(strings.Repeat("x", 2<<20)))
	got.expect(t, http.StatusInsufficientStorage)
	if !strings.Contains(got.body, "no room") || strings.Contains(got.body, "gone") {
		t.Errorf("got %s, want words without a path", got.body)
	}
	s.send(program(t), "POST", "/file", body("small")).expect(t, 200)
}
