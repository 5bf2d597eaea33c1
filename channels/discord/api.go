package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
	"parley/channels/preview"
	"parley/internal/clock"
)

// requestTimeout limits one request, from the connection to the answer.
const requestTimeout = 30 * time.Second

// api calls Discord's REST API through the library, which keeps the rate limits: each
// route of a channel waits for itself alone.
type api struct {
	session *discordgo.Session // for requests; its gateway is never opened
	limits  atomic.Pointer[discordgo.RateLimiter]
}

func newAPI(token string, t *transport) (*api, error) {
	session, err := discordgo.New("Bot " + token)
	if err != nil {
		return nil, err
	}
	session.Client = &http.Client{Transport: t, Timeout: requestTimeout, CheckRedirect: neverRedirect}
	session.ShouldRetryOnRateLimit = false // a refusal waits where ctx can end the wait
	session.MaxRestRetries = 0
	session.LogLevel = silent
	a := &api{session: session}
	a.releaseIdle()
	return a, nil
}

// releaseIdle closes idle connections and drops the rate limits, which the
// library keeps for every channel that was ever written to. Where a limit still
// holds, Discord's next refusal says so again.
func (a *api) releaseIdle() {
	a.limits.Store(discordgo.NewRatelimiter())
	a.session.Client.CloseIdleConnections()
}

// silent is below every level of the library's log, which is a global one.
const silent = -1

// neverRedirect keeps the token, and what people wrote, from other servers.
func neverRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// request is one call. A limit is a name for the requests that Discord limits
// together; an empty one is for routes that have no limit of their own.
type request struct {
	method, url string
	limit       string
	body        any            // sent as JSON; nil: none
	file        *channels.File // the file that is sent with the body; nil: none
	isPreview   bool           // the request goes on when ctx ends, see preview.Request
}

// call makes a request and decodes its answer into out, which may be nil. It
// waits for the rate limit until ctx ends; a request on its way outlives ctx by
// a moment, since Discord may have taken it already. Refusals are *refusal;
// every other error is one of the network or of a server that failed. No error
// holds a token.
func (a *api) call(ctx context.Context, r request, out any) error {
	contentType, body, err := r.encode()
	if err != nil {
		return err
	}
	limiter := a.limits.Load()
	if r.limit == "" {
		limiter = discordgo.NewRatelimiter()
	}
	bucket, err := lockBucket(ctx, limiter, r.limit)
	if err != nil {
		return err
	}
	longer := channels.WithGrace
	if r.isPreview {
		longer = preview.Request
	}
	ctx, cancel := longer(ctx)
	defer cancel()
	answer, err := a.session.RequestWithLockedBucket(r.method, r.url, contentType, body, bucket, 0, discordgo.WithContext(ctx))
	if err != nil {
		return explain(err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	return nil
}

// errAnswer is the error of a successful answer in an undocumented shape.
var errAnswer = errors.New("answer not understood")

func (r request) encode() (contentType string, body []byte, err error) {
	switch {
	case r.file != nil:
		files := []*discordgo.File{{Name: r.file.Name, ContentType: r.file.MediaType(), Reader: bytes.NewReader(r.file.Data)}}
		return discordgo.MultipartBodyWithJSON(r.body, files)
	case r.body != nil:
		body, err = json.Marshal(r.body)
	}
	return "application/json", body, err
}

// lockBucket waits until the rate limit lets a request through, and locks its bucket.
// The library's own wait would not end with ctx.
func lockBucket(ctx context.Context, limiter *discordgo.RateLimiter, limit string) (*discordgo.Bucket, error) {
	bucket := limiter.GetBucket(limit)
	for {
		bucket.Lock()
		wait := limiter.GetWaitTime(bucket, 1)
		if wait <= 0 && ctx.Err() == nil {
			bucket.Remaining--
			return bucket, nil
		}
		bucket.Unlock()
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// refusal is a request that Discord understood and refused.
type refusal struct {
	status     int    // of HTTP
	code       int    // of Discord: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json
	message    string // Discord's message, with the fields that it objects to
	retryAfter time.Duration
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("%d %s", r.status, r.message)
	if r.code != 0 {
		text += fmt.Sprintf(" (code %d)", r.code)
	}
	return text
}

// refused returns the refusal in err, or one without status and code.
func refused(err error) refusal {
	var r *refusal
	if errors.As(err, &r) {
		return *r
	}
	return refusal{}
}

// isFinal reports whether the same request would be refused again. A rejected token is
// not final: the bot is tried again.
func isFinal(err error) bool {
	status := refused(err).status
	return status != 0 && status != http.StatusTooManyRequests && status != http.StatusUnauthorized
}

// explain returns an error of the library without the address, which holds the token
// of an interaction.
func explain(err error) error {
	var limited *discordgo.RateLimitError
	if errors.As(err, &limited) {
		return &refusal{status: http.StatusTooManyRequests, message: limited.Message, retryAfter: limited.RetryAfter}
	}
	var rest *discordgo.RESTError
	if errors.As(err, &rest) {
		return explainREST(rest)
	}
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	if text := err.Error(); strings.Contains(text, "<") || len(text) > maxErrorText {
		return fmt.Errorf("the server failed: %.*s", maxErrorText, strings.SplitN(text, ", ", 2)[0])
	}
	return err
}

// maxErrorText is how many bytes of an answer, which may be a proxy's page,
// stand in an error.
const maxErrorText = 300

func explainREST(rest *discordgo.RESTError) error {
	status := rest.Response.StatusCode
	if status >= http.StatusInternalServerError || rest.Message == nil {
		return fmt.Errorf("the server failed: it answered %s", rest.Response.Status)
	}
	r := &refusal{status: status, code: rest.Message.Code, message: rest.Message.Message}
	var detail struct {
		Errors json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(rest.ResponseBody, &detail) == nil && len(detail.Errors) > 0 {
		r.message += fmt.Sprintf(" %.*s", maxErrorText, detail.Errors)
	}
	return r
}

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

// CloseIdleConnections implements what http.Client.CloseIdleConnections calls.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// bound gives a context to the requests of library calls that take none.
type bound struct {
	*transport
	ctx context.Context
}

func (b bound) RoundTrip(req *http.Request) (*http.Response, error) {
	return b.transport.RoundTrip(req.WithContext(b.ctx))
}
