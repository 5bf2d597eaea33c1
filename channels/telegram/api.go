package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

const (
	requestTimeout = 30 * time.Second
	maxIdleConns   = 256     // connections kept for that many chats at once
	maxDrain       = 1 << 18 // bytes read of an answer's rest to keep its connection
)

// api calls the methods of the Bot API.
type api struct {
	token    string
	endpoint string // a format for token and method
	http     *http.Client
}

func newAPI(token, apiURL string) *api {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &api{
		token:    token,
		endpoint: strings.ReplaceAll(apiURL, "%", "%%") + "/bot%s/%s",
		http: &http.Client{
			// HTTP/1.1, because a dead HTTP/2 connection would be used again
			// and again until the system notices, long polls included.
			Transport: &http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           dialer.DialContext,
				TLSHandshakeTimeout:   10 * time.Second,
				MaxIdleConns:          maxIdleConns,
				MaxIdleConnsPerHost:   maxIdleConns,
				IdleConnTimeout:       90 * time.Second,
				ResponseHeaderTimeout: pollTimeout + requestTimeout,
			},
			// The path holds the token, so it goes to no other server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// call calls a method and decodes its result into out, which may be nil.
// Refusals are *tgbotapi.Error; a result that does not decode is errResult.
// No error holds the token.
func (a *api) call(ctx context.Context, timeout time.Duration, method string, params tgbotapi.Params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bot := tgbotapi.BotAPI{Token: a.token, Client: doer{ctx, a.http}}
	bot.SetAPIEndpoint(a.endpoint)
	answer, err := bot.MakeRequest(method, params)
	if err != nil {
		return a.redact(method, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		return fmt.Errorf("%s: %w: %w", method, errResult, err)
	}
	return nil
}

// errResult is a success whose result has another shape than documented.
var errResult = errors.New("result not understood")

// redact removes the URL, which holds the token, from an error.
func (a *api) redact(method string, err error) error {
	var refused *tgbotapi.Error
	if errors.As(err, &refused) {
		refused.Message = a.redactText(refused.Message)
		return refused
	}
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	if text := err.Error(); a.redactText(text) != text {
		err = errors.New(a.redactText(text))
	}
	return fmt.Errorf("%s: %w", method, err)
}

func (a *api) redactText(text string) string {
	for _, secret := range []string{a.token, url.QueryEscape(a.token)} {
		text = strings.ReplaceAll(text, secret, "<token>")
	}
	return text
}

// doer gives the library's requests a context.
type doer struct {
	ctx  context.Context
	http *http.Client
}

// Do makes server errors of all forms, a proxy's pages among them, one kind
// of error, since their body is of no use.
func (d doer) Do(req *http.Request) (*http.Response, error) {
	resp, err := d.http.Do(req.WithContext(d.ctx))
	if err != nil {
		return nil, err
	}
	resp.Body = drained{resp.Body}
	if resp.StatusCode >= 500 {
		resp.Body.Close()
		return nil, fmt.Errorf("the server answered %s", resp.Status)
	}
	return resp, nil
}

// drained reads a body to its end before it is closed, so that the connection
// can be used again.
type drained struct{ io.ReadCloser }

func (d drained) Close() error {
	io.CopyN(io.Discard, d.ReadCloser, maxDrain)
	return d.ReadCloser.Close()
}

// refusal is the API's answer if err is one, else nil.
func refusal(err error) *tgbotapi.Error {
	var refused *tgbotapi.Error
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}
