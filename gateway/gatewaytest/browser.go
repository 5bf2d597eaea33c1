package gatewaytest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"testing"
)

// Browser reads pages as a browser does that runs no scripts. It keeps cookies.
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
	b := &Browser{URL: url, Client: &http.Client{Jar: jar, Timeout: patience}, t: t}
	t.Cleanup(b.Client.CloseIdleConnections)
	return b
}

// Get returns what a path is answered.
func (b *Browser) Get(path string) (status int, body string, header http.Header) {
	b.t.Helper()
	request, err := http.NewRequest(http.MethodGet, b.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Do(request)
}

// Do returns what a request is answered.
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

// Page returns the page at a path, which must be there.
func (b *Browser) Page(path string) string {
	b.t.Helper()
	status, body, _ := b.Get(path)
	if status != http.StatusOK {
		b.t.Fatalf("%s answers %d: %s", path, status, body)
	}
	return body
}
