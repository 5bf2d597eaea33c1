package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

const (
	requestTimeout = 30 * time.Second
	uploadTimeout  = 5 * time.Minute // time to send a file of several megabytes on a slow line
	maxIdleConns   = 256             // idle connections that are kept, for as many chats that are answered at once
	maxDrain       = 1 << 18         // bytes of an unread response that are drained so that its connection can be reused
	maxHead        = 1 << 10         // bytes of a response that are kept for the error if it can't be read
)

// api calls the methods of the Bot API.
type api struct {
	token    string
	endpoint string // format of the URL, with the token and the method as arguments
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
// Refusals are *tgbotapi.Error; a result that does not decode is errResult, an
// answer that is not the API's *garbledError, and a failure of the server
// errServer. Every other error is one of the network. No error holds the token.
func (a *api) call(ctx context.Context, timeout time.Duration, method string, params tgbotapi.Params, out any) error {
	return a.do(ctx, timeout, method, out, func(bot *tgbotapi.BotAPI) (*tgbotapi.APIResponse, error) {
		return bot.MakeRequest(method, params)
	})
}

// upload is call with files.
func (a *api) upload(ctx context.Context, method string, params tgbotapi.Params, files []tgbotapi.RequestFile, out any) error {
	return a.do(ctx, uploadTimeout, method, out, func(bot *tgbotapi.BotAPI) (*tgbotapi.APIResponse, error) {
		answer, err := bot.UploadFiles(method, params, files)
		if refused := refusal(err); refused != nil && answer != nil {
			refused.Code = answer.ErrorCode // which the library leaves out here
		}
		return answer, err
	})
}

func (a *api) do(ctx context.Context, timeout time.Duration, method string, out any, request func(*tgbotapi.BotAPI) (*tgbotapi.APIResponse, error)) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := &doer{ctx: limited, http: a.http}
	bot := tgbotapi.BotAPI{Token: a.token, Client: client}
	bot.SetAPIEndpoint(a.endpoint)
	answer, err := request(&bot)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: no answer within %s", method, timeout)
	}
	if err != nil {
		return a.redact(method, client.body.classify(err))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		return fmt.Errorf("%s: %w: %w", method, errResult, err)
	}
	return nil
}

var (
	// errResult is a success whose result has another shape than documented.
	errResult = errors.New("result not understood")

	// errServer is a server, or a proxy before it, that could not do its work.
	errServer = errors.New("the server failed")
)

// redact removes the URL, which holds the token, from an error.
func (a *api) redact(method string, err error) error {
	var refused *tgbotapi.Error
	if errors.As(err, &refused) {
		refused.Message = a.redactText(refused.Message)
		if refused.Message == "" {
			refused.Message = fmt.Sprintf("refused without a reason (error_code %d)", refused.Code)
		}
		return refused
	}
	var garbled *garbledError
	if errors.As(err, &garbled) {
		garbled.head = a.redactText(garbled.head)
	}
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	if text := err.Error(); garbled == nil && a.redactText(text) != text {
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

// doer adds a context to a request of the library, and keeps the response's body.
type doer struct {
	ctx  context.Context
	http *http.Client
	body *body // body of the response; nil before it has come
}

// Do turns every failure of a server into errServer, whatever its body, which may
// be a proxy's page.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	resp, err := d.http.Do(req.WithContext(d.ctx))
	if err != nil {
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, status: resp.Status}
	resp.Body = b
	if resp.StatusCode >= 500 {
		b.Close()
		return nil, fmt.Errorf("%w: it answered %s", errServer, resp.Status)
	}
	d.body = b
	return resp, nil
}

// refusal returns the API's error in err, and nil for any other error.
func refusal(err error) *tgbotapi.Error {
	var refused *tgbotapi.Error
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}
