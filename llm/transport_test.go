package llm_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// fillPool makes size concurrent calls, so that as many idle connections stay.
func fillPool(t *testing.T, server *llmtest.Server, client *llm.Client, size int) {
	t.Helper()
	var together sync.WaitGroup
	together.Add(size)
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		together.Done()
		together.Wait()
		return llmtest.Echo(c)
	})
	var calls sync.WaitGroup
	for range size {
		calls.Go(func() {
			if _, err := client.Complete(t.Context(), ask("hello"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

const pooled = 100

// When a server closes idle connections without an answer, the request is not sent again on each of them.
func TestRequestIsSentAsOftenAsTriesAreConfigured(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	client := llm.NewClient(fastRetries(server), nil)
	fillPool(t, server, client, pooled)
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{HangUp: true} })
	told := mustFail(t, client, llm.KindUnreachable)
	if n := server.Served() - pooled; n != 4 {
		t.Errorf("%d requests for one call, want 4: %v", n, told)
	}
}

// A request that was lost on an idle connection is sent once more, at once, on a new one.
func TestRequestIsSentAgainOnANewConnection(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	proxy, opened := countingProxy(t, server)
	cfg := fastRetries(server)
	cfg.BaseURL = proxy
	var log bytes.Buffer
	client := llm.NewClient(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	fillPool(t, server, client, pooled)
	before := opened()
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "here", HangUp: c.N == pooled+1}
	})
	if resp, _ := mustComplete(t, client, ask("hello")); resp.Text != "here" {
		t.Errorf("text %q", resp.Text)
	}
	if requests, connections := server.Served()-pooled, opened()-before; requests != 2 || connections != 1 {
		t.Errorf("%d requests and %d new connections, want 2 and 1", requests, connections)
	}
	if !strings.Contains(log.String(), "wait=0s") {
		t.Errorf("the second try is not made at once: %s", log.String())
	}
}

// foreignServer starts a server to which no request may be sent.
func foreignServer(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	return server.URL, requests
}

const pathSecret = "a-path-that-is-a-secret"

// The key and the conversation are sent only to the configured server.
func TestRedirectToAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	const key = "sk-redirected-key"
	elsewhere, requests := foreignServer(t)
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, target := range map[string]string{
			"another port":   elsewhere,
			"another host":   strings.Replace(elsewhere, "127.0.0.1", "localhost", 1),
			"another scheme": secure.URL,
			"without scheme": strings.TrimPrefix(elsewhere, "http:"),
		} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, target+"/"+pathSecret+"?key="+key, status)
			}))
			var log bytes.Buffer
			cfg := llm.Config{BaseURL: server.URL + "/v1", Model: "m", APIKey: key, FallbackModels: []string{"n"}}
			told := mustFail(t, llm.NewClient(cfg, slog.New(slog.NewTextHandler(&log, nil))), llm.KindNotAPI)
			text := told.Error() + told.User + log.String()
			if !strings.Contains(told.Error(), "base_url") || !strings.Contains(told.Error(), server.URL) {
				t.Errorf("%d to %s: the error does not say what to do: %v", status, name, told)
			}
			if strings.Contains(text, key) || strings.Contains(text, pathSecret) {
				t.Errorf("%d to %s: a secret is told: %s", status, name, text)
			}
			server.Close()
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent elsewhere", n)
	}
}

// A server may move a path, such as to one with a slash at its end.
func TestRedirectWithinTheOriginIsFollowed(t *testing.T) {
	t.Parallel()
	for status, followed := range map[int]bool{301: false, 302: false, 303: false, 307: true, 308: true} {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			if !strings.HasSuffix(r.URL.Path, "/") {
				http.Redirect(w, r, r.URL.Path+"/", status)
				return
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"moved"}}]}`)
		}))
		client := llm.NewClient(llm.Config{BaseURL: server.URL + "/v1", Model: "m"}, nil)
		if followed {
			if resp, _ := mustComplete(t, client, ask("hello")); resp.Text != "moved" || len(bodies) != 2 || bodies[0] != bodies[1] {
				t.Errorf("%d: text %q, bodies %q", status, resp.Text, bodies)
			}
		} else if told := mustFail(t, client, llm.KindNotAPI); len(bodies) != 1 || !strings.Contains(told.Error(), "GET") {
			t.Errorf("%d: %d requests: %v", status, len(bodies), told)
		}
		server.Close()
	}
}

func TestEndlessRedirectIsGivenUp(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	mustFail(t, llm.NewClient(llm.Config{BaseURL: server.URL, Model: "m"}, nil), llm.KindNotAPI)
	if n := requests.Load(); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// A redirect of the model list is refused: the request has the key, and a probe would choose a server of
// another machine.
func TestRedirectOfTheModelListIsRefused(t *testing.T) {
	t.Parallel()
	elsewhere, requests := foreignServer(t)
	server := httptest.NewServer(http.RedirectHandler(elsewhere+"/models", http.StatusFound))
	t.Cleanup(server.Close)
	_, _, err := llm.Choose(t.Context(), llm.Config{BaseURL: server.URL, APIKey: "sk-secret"}, env(""), nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "redirect") || !strings.Contains(err.Error(), elsewhere) {
		t.Errorf("error %v, want one that names the redirect", err)
	}
	_, choice, err := llm.Choose(t.Context(), llm.Config{}, env(""), []string{server.URL}, slog.New(slog.DiscardHandler))
	if err != nil || choice.Model != "offline" {
		t.Errorf("chosen %+v, %v; want the offline model", choice, err)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent elsewhere", n)
	}
}
