package discord

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Discord's hosts for files, https://discord.com/developers/docs/reference#image-formatting
var fileHosts = []string{"cdn.discordapp.com", "media.discordapp.net"}

// apiHost is where the library sends its requests.
const apiHost = "discord.com"

// transport sends what is meant for Discord's hosts to another server, if one
// is configured: the library's addresses are globals, which stay as they are.
type transport struct {
	base *http.Transport
	to   *url.URL // nil: Discord itself
}

func newTransport(apiURL string) (*transport, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &transport{base: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256, // for that many channels at once
		IdleConnTimeout:       90 * time.Second,
		ResponseHeaderTimeout: requestTimeout,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second}, // so that a dead connection is noticed
	}}
	if apiURL == defaultAPIURL {
		return t, nil
	}
	var err error
	t.to, err = url.Parse(apiURL)
	return t, err
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.to == nil || req.URL.Host != apiHost && !slices.Contains(fileHosts, req.URL.Host) {
		return t.base.RoundTrip(req)
	}
	moved := req.Clone(req.Context())
	moved.Host = ""
	moved.URL.Scheme, moved.URL.Host = t.to.Scheme, t.to.Host
	if prefix := t.to.EscapedPath(); prefix != "" && prefix != "/" {
		whole := t.to.JoinPath(req.URL.EscapedPath())
		moved.URL.Path, moved.URL.RawPath = whole.Path, whole.RawPath
	}
	return t.base.RoundTrip(moved)
}

// CloseIdleConnections is asked for by http.Client.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// bound ends the requests of a library call that takes no context with one.
type bound struct {
	*transport
	ctx context.Context
}

func (b bound) RoundTrip(req *http.Request) (*http.Response, error) {
	return b.transport.RoundTrip(req.WithContext(b.ctx))
}
