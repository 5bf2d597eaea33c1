package llm

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 3

// newHTTPClient returns an HTTP client for a model's server. It sends each request once,
// since the caller retries and counts. It follows redirects only within one origin,
// since the API key and the conversation are for no other server.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &transport{newTransport()},
		// A POST is followed where the answer is 307 or 308, which keep its method
		// and its body (RFC 9110, section 15.4).
		CheckRedirect: checkRedirect,
	}
}

// transport sends each request once. http.Transport by itself resends a request whose
// body it can get again, on each idle connection that the server turns out to have
// closed, so that a request may arrive several times.
type transport struct{ base *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	once := *req // a RoundTripper must not change the request
	once.GetBody = nil
	return t.base.RoundTrip(&once)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// newTransport keeps an idle connection for each of the calls that run at once, so that
// the next ones need no handshake. It does not limit the time of an answer; the attempt
// does.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // proxies hold compressed streams back
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		WriteBufferSize:       8 << 10,
	}
}

// staleError is the failure of a request on a reused connection. Mostly the server had
// closed it, and a new connection works.
type staleError struct{ err error }

func (e *staleError) Error() string {
	return "a kept connection was closed without an answer: " + e.err.Error()
}
func (e *staleError) Unwrap() error { return e.err }

// redirectError is a redirect that is not followed. It does not name paths, which may
// hold secrets.
type redirectError struct {
	from, to string // scheme, host and port
	why      string
}

func (e *redirectError) Error() string {
	return fmt.Sprintf("refused to follow a redirect from %s to %s: %s", e.from, e.to, e.why)
}

// checkRedirect implements http.Client.CheckRedirect.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	refused := &redirectError{from: origin(first.URL), to: origin(next.URL)}
	switch {
	case refused.from != refused.to:
		refused.why = "the API key and the conversation go to no other server than that of base_url in [llm]; change it if the other is the right one"
	case next.Method != first.Method:
		refused.why = "its status turns the " + first.Method + " into a " + next.Method + "; set base_url in [llm] to the address that takes it"
	case len(via) > maxRedirects:
		refused.why = fmt.Sprintf("it is the last of more than %d", maxRedirects)
	default:
		return nil
	}
	return refused
}

// origin returns the scheme, host and port of an address (RFC 6454, section 4).
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
