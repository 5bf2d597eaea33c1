package gatewaytest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"parley/httpserver"
	"parley/internal/waittest"
)

// Browser reads pages like a browser without scripts. It keeps cookies.
type Browser struct {
	URL    string // without a slash at its end
	Client *http.Client

	t testing.TB
}

// NewBrowser makes a browser of pages below url.
func NewBrowser(t testing.TB, url string) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{URL: url, Client: &http.Client{Jar: jar, Timeout: waittest.Patience}, t: t}
	t.Cleanup(b.Client.CloseIdleConnections)
	return b
}

// ServePages serves the pages that register adds, without a gateway and without sign-in, until
// the test ends. It returns a browser for them.
func ServePages(t testing.TB, register func(*httpserver.Server)) *Browser {
	t.Helper()
	listen, log := "127.0.0.1:0", slog.New(slog.DiscardHandler)
	server, err := httpserver.New(httpserver.Deps{Config: httpserver.Config{Listen: &listen, Auth: httpserver.AuthNone, MaxConnections: 100}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	register(server)
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, ctx, ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return NewBrowser(t, strings.TrimSuffix(server.URL(), "/"))
}

// Get requests a path and returns the answer.
func (b *Browser) Get(path string) (status int, body string, header http.Header) {
	b.t.Helper()
	request, err := http.NewRequest(http.MethodGet, b.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Do(request)
}

// Do sends a request and returns the answer.
func (b *Browser) Do(request *http.Request) (status int, body string, header http.Header) {
	b.t.Helper()
	answer, err := b.Client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// Page returns the page at a path. It fails the test unless the status is 200.
func (b *Browser) Page(path string) string {
	b.t.Helper()
	request, err := http.NewRequest(http.MethodGet, b.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	status, body, _ := b.Do(request)
	if status != http.StatusOK {
		b.t.Fatalf("%s answers %d: %s", path, status, body)
	}
	return body
}
