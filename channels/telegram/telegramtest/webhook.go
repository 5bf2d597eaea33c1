package telegramtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// webhook is where the server brings updates, one after the other, each until
// it is taken: https://core.telegram.org/bots/api#setwebhook
type webhook struct {
	url         string // "" = there is none
	secret      string
	stop        func() // ends the bringing
	lastErrorAt int64  // Unix time
	lastError   string
}

// The pauses between two tries of an update; the real ones are longer.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// hookTimeout is how long a bot may take for an update.
const hookTimeout = 60 * time.Second

var secretForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,256}$`)

// SetWebhook makes getUpdates answer 409 until deleteWebhook, as the webhook of
// another program would, to which nothing is brought; "" removes it.
func (s *Server) SetWebhook(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaceWebhook(webhook{url: url, stop: func() {}})
}

// Webhook is the address to which updates are brought, "" when there is none.
func (s *Server) Webhook() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webhook.url
}

// WaitWebhook waits until there is a webhook.
func (s *Server) WaitWebhook(ctx context.Context) error {
	return s.wait(ctx, "a webhook", func() bool { return s.webhook.url != "" })
}

func (s *Server) replaceWebhook(with webhook) {
	if s.webhook.stop != nil {
		s.webhook.stop()
	}
	s.webhook = with
	if with.url != "" {
		s.poll.terminate("terminated by setWebhook request")
	}
	s.changed.Broadcast()
}

func (s *Server) setWebhook(w http.ResponseWriter, p map[string]string) {
	switch url := p["url"]; {
	case !secretForm.MatchString(p["secret_token"]):
		refuse(w, Verdict{Code: 400, Description: "secret token contains unallowed characters"})
		return
	case url != "" && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://127.0.0.1:"):
		refuse(w, Verdict{Code: 400, Description: "bad webhook: An HTTPS URL must be provided for webhook"})
		return
	}
	s.mu.Lock()
	s.allow(p["allowed_updates"])
	ctx, stop := context.WithCancel(context.Background())
	s.replaceWebhook(webhook{url: p["url"], secret: p["secret_token"], stop: stop})
	if p["url"] == "" {
		stop()
	} else {
		go s.bring(ctx, p["url"], p["secret_token"])
	}
	s.mu.Unlock()
	answer(w, true)
}

func (s *Server) webhookInfo() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := map[string]any{"url": s.webhook.url, "has_custom_certificate": false, "pending_update_count": len(s.queue)}
	if s.webhook.lastErrorAt != 0 {
		info["last_error_date"], info["last_error_message"] = s.webhook.lastErrorAt, s.webhook.lastError
	}
	return info
}

// bring hands the updates to a webhook until ctx ends.
func (s *Server) bring(ctx context.Context, url, secret string) {
	client := &http.Client{
		Timeout:       hookTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true}, // a bot that was killed must not be met half alive
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	pause := firstPause
	for s.wait(ctx, "an update", func() bool { return len(s.queue) > 0 }) == nil {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.mu.Unlock()
			continue
		}
		next := s.queue[0]
		s.mu.Unlock()
		if err := handOver(ctx, client, url, secret, next.raw); err == nil {
			s.took(ctx, next.id)
			pause = firstPause
			continue
		} else if !s.note(ctx, err) {
			return
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		case <-ctx.Done():
		}
	}
}

// took confirms an update that a webhook has answered.
func (s *Server) took(ctx context.Context, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil { // else another webhook gets it again
		s.confirm(id + 1)
		s.changed.Broadcast()
	}
}

// note keeps for getWebhookInfo why an update was not taken.
func (s *Server) note(ctx context.Context, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	s.webhook.lastErrorAt, s.webhook.lastError = time.Now().Unix(), err.Error()
	s.changed.Broadcast()
	return true
}

// WaitRefused waits until a webhook has not taken an update.
func (s *Server) WaitRefused(ctx context.Context) error {
	return s.wait(ctx, "an update that is not taken", func() bool { return s.webhook.lastErrorAt != 0 })
}

func handOver(ctx context.Context, client *http.Client, url, secret string, raw []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if secret != "" {
		request.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("connection failed: %w", err)
	}
	response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("wrong response from the webhook: %s", response.Status)
	}
	return nil
}
