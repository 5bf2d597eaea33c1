package webfetch

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/plaintext"
)

// The limits of one fetch beside those of Config.
const (
	maxRedirects = 5
	maxHeader    = 64 << 10 // bytes of the headers of an answer
	maxURL       = 4 << 10  // bytes of a URL
)

// response is what a server has answered, redirects followed.
type response struct {
	url    *url.URL
	status int
	header http.Header
	body   []byte
	cut    bool // the body is longer than body
}

// newTransport returns what sends the requests. It takes no proxy from the environment.
func (f *Fetcher) newTransport() (*http.Transport, error) {
	t := &http.Transport{
		DialContext:            f.dial,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // see unpacked
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           16,
		IdleConnTimeout:        10 * time.Second,
	}
	if f.config.Proxy != "" {
		proxy, err := url.Parse(f.config.Proxy)
		if err != nil {
			return nil, errors.New("web_fetch.proxy is no address")
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	return t, nil
}

// get fetches a URL and follows redirects. Before every request, may is asked about its URL.
// The error names the URL at which it happened.
func (f *Fetcher) get(ctx context.Context, u *url.URL, limit int64, may func(*url.URL) error) (response, error) {
	for range maxRedirects + 1 {
		if err := f.checkURL(u); err != nil {
			return response{}, fmt.Errorf("%s: %w", shownURL(u), err)
		}
		if err := may(u); err != nil {
			return response{}, err
		}
		answer, err := f.request(ctx, u, limit)
		if err != nil {
			return response{}, fmt.Errorf("%s: %w", shownURL(u), inWords(ctx, err))
		}
		location := answer.header.Get("Location")
		if answer.status < 300 || answer.status > 399 || location == "" {
			return answer, nil
		}
		next, err := u.Parse(location)
		if err != nil || len(location) > maxURL {
			return response{}, fmt.Errorf("%s: it redirects to an invalid address", shownURL(u))
		}
		next.Fragment = cmp.Or(next.Fragment, u.Fragment)
		u = next
	}
	return response{}, fmt.Errorf("it redirects more than %d times", maxRedirects)
}

// request makes one request and reads the answer.
func (f *Fetcher) request(ctx context.Context, u *url.URL, limit int64) (response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return response{}, errors.New("it is no URL that can be read")
	}
	request.Header.Set("User-Agent", f.agent)
	request.Header.Set("Accept", "text/html,application/xhtml+xml,application/pdf,text/*,application/json;q=0.9,*/*;q=0.5")
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := f.transport.RoundTrip(request)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	r := response{url: u, status: answer.StatusCode, header: answer.Header}
	if r.status != http.StatusOK {
		return r, nil
	}
	body, err := unpacked(answer, limit)
	if err != nil {
		return r, err
	}
	r.body, err = io.ReadAll(io.LimitReader(body, limit+1))
	if int64(len(r.body)) > limit {
		r.body, r.cut = r.body[:limit], true
	}
	return r, err
}

// errPacked says of an answer that its compression makes no sense.
var errPacked = errors.New("the answer is packed in a way that web_fetch can't read")

// unpacked returns the body of an answer without its compression. Of the compressed body at
// most limit bytes are read, so that one which unpacks into nothing ends as well.
func unpacked(answer *http.Response, limit int64) (io.Reader, error) {
	body := io.LimitReader(answer.Body, limit+1)
	switch strings.ToLower(strings.TrimSpace(answer.Header.Get("Content-Encoding"))) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(body)
		if errors.Is(err, io.EOF) { // there is no body
			return body, nil
		}
		return unpacked, err
	}
	return nil, errPacked
}

// inWords returns the error of a request in words that name no address behind a name.
func inWords(ctx context.Context, err error) error {
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errNotPublic):
		return errNotPublic
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return errors.New("there is no such host")
	case errors.As(err, &certificate):
		return errors.New("its certificate is not valid")
	case errors.Is(err, errPacked), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return errPacked
	}
	return errors.New("the server can't be reached, or its answer breaks off")
}

// shownURL returns a URL for a message, without a password.
func shownURL(u *url.URL) string {
	return plaintext.ShortLine(u.Redacted(), maxURL)
}
