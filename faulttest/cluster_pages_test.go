package faulttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

// page follows the events of a session on one node, and on the next one when that is gone, like a browser behind a load
// balancer.
type page struct {
	session string
	nodes   []*node

	mu       sync.Mutex
	last     string   // id of the last event that had one
	shown    string   // the text of the answer under way
	messages []string // the finished messages that it got
}

// follow shows the session until ctx ends.
func (p *page) follow(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		p.read(ctx, p.nodes[n%len(p.nodes)])
		time.Sleep(10 * time.Millisecond) // the gateway is gone
	}
}

func (p *page) read(ctx context.Context, n *node) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.listen+"/api/v1/sessions/"+p.session+"/events", nil)
	if err != nil {
		return
	}
	p.mu.Lock()
	if p.last != "" {
		request.Header.Set("Last-Event-ID", p.last)
	}
	p.shown = ""
	p.mu.Unlock()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	event := map[string]string{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if event[name] = value; lines.Text() == "" {
			p.take(event)
			event = map[string]string{}
		}
	}
}

func (p *page) take(event map[string]string) {
	var data struct{ Role, Text, Content string }
	_ = json.Unmarshal([]byte(event["data"]), &data) // keep-alive events have no data
	p.mu.Lock()
	defer p.mu.Unlock()
	if event["id"] != "" {
		p.last = event["id"]
	}
	switch event["event"] {
	case "delta":
		p.shown += data.Text
	case "reset":
		p.shown = ""
	case "message":
		p.shown = ""
		p.messages = append(p.messages, data.Role+": "+data.Content)
	}
}

// shows reports whether the page shows a part of an answer under way.
func (p *page) shows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown != ""
}

func (p *page) has() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

// A page on one node shows an answer of another node, and either of the two is killed meanwhile. The page gets the whole
// answer, once.
func TestClusterShowsAnswersOnEveryGateway(t *testing.T) {
	t.Parallel()
	const words = 40
	model := llmtest.New(t)
	model.Reply(func(c llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: strings.Repeat("word ", words) + "end", Pieces: words, ChunkDelay: 150 * time.Millisecond}
	})
	nodes, _ := newNodes(t, 3, model)
	for _, n := range nodes {
		n.start()
	}
	for _, n := range nodes {
		gatewaytest.Await(t, "a node to be ready", func() bool { status, _ := n.ready(); return status == http.StatusOK })
	}
	for i := range 2 * clusterRounds(t, 1) {
		round := []struct {
			what         string
			runs, killed int // nodes; the page begins on node 0
		}{
			{"the node with the run is killed", 1, 1},
			{"the node with the page is killed", 2, 0},
		}[i%2]
		p := &page{session: fmt.Sprint("api:round-", i), nodes: nodes}
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { p.follow(ctx) })
		gatewaytest.Await(t, "the page to follow", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.last != "" })
		posting, stopPosting := context.WithCancel(ctx)
		following.Go(func() { _, _ = nodes[round.runs].post(posting, p.session, "key", "tell me") }) // its node may be killed
		gatewaytest.Await(t, "the page to show the answer: "+round.what, p.shows)
		stopPosting()
		nodes[round.killed].process.Kill()
		gatewaytest.Await(t, "the whole answer: "+round.what, func() bool { return len(p.has()) >= 2 })
		want := []string{"user: tell me", "assistant: " + strings.Repeat("word ", words) + "end"}
		if got := p.has(); !slices.Equal(got, want) {
			t.Errorf("%s: the page got %q", round.what, got)
		}
		cancel()
		following.Wait()
		nodes[round.killed].start()
		gatewaytest.Await(t, "the node to be ready", func() bool { status, _ := nodes[round.killed].ready(); return status == http.StatusOK })
	}
	for _, n := range nodes {
		n.process.Stop()
	}
}

// A program cancels a run at one gateway while another one works it.
func TestClusterCancelsARunFromAnotherGateway(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url)
	reached, _ := g.holdStream("go on")
	posting, stopPosting := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = g.nodes[0].post(posting, "api:task", "key", "go on") })
	reached()
	run := g.count(`SELECT max(id) FROM inbox`)
	cancel := func(run int) string {
		answer, err := http.Post(fmt.Sprintf("http://%s/api/v1/sessions/api:task/runs/%d/cancel", g.nodes[1].listen, run), "", nil)
		must(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		return fmt.Sprint(answer.StatusCode, " ", string(body))
	}
	for range 2 {
		if got := cancel(run); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"stopped"`) {
			t.Errorf("the cancellation is answered with %s", got)
		}
	}
	if got := cancel(run + 1); !strings.HasPrefix(got, "404 ") {
		t.Errorf("the cancellation of a run that does not exist is answered with %s", got)
	}
	stopPosting()
	asking.Wait()
}

// request sends a request with a body of JSON to a node.
func (n *node) request(ctx context.Context, method, path, body string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+n.listen+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return got.StatusCode, string(text), err
}

// Programs append to a session and delete it at a gateway that does not work it, while another one does: nothing of the run is lost,
// and the deletion waits for its end.
func TestClusterChangesASessionFromAnotherGateway(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	g := newCluster(t, url, url, url)
	const path = "/api/v1/sessions/api:task"
	during := func(text string, waits bool, do func(other *node)) {
		t.Helper()
		reached, release := g.holdModelCall(text)
		var talking sync.WaitGroup
		talking.Go(func() { g.post(0, "api:task", text) })
		reached()
		owner := g.owner("api:task")
		other := g.nodes[1-slices.Index(g.nodes, owner)]
		var released atomic.Bool
		talking.Go(func() {
			do(other)
			if waits && !released.Load() {
				t.Error("the session was deleted during a run")
			}
		})
		for range 20 { // in which the request above reaches the gateway
			if status, answer, err := other.request(t.Context(), http.MethodGet, path, ""); err != nil || status != http.StatusOK {
				t.Errorf("reading the session is answered %d %s, %v", status, answer, err)
			}
		}
		released.Store(true)
		release()
		talking.Wait()
	}
	for round := range clusterRounds(t, 1) {
		answered := fmt.Sprintf("r%dm0", round)
		during(answered, false, func(other *node) {
			status, answer, err := other.request(t.Context(), http.MethodPost, path+"/messages:append", `{"role": "user", "text": "appended"}`)
			if err != nil || status != http.StatusCreated {
				t.Errorf("appending is answered %d %s, %v", status, answer, err)
			}
		})
		got, want := contents(t, url, "api:task"), []string{"appended", answered, "re " + answered} // in the order of their commits
		if slices.Index(got, want[2]) != slices.Index(got, want[1])+1 || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("stored are %q, want %q", got, want)
		}
		during(fmt.Sprintf("r%dm1", round), true, func(other *node) {
			status, answer, err := other.request(t.Context(), http.MethodDelete, path, "")
			if err != nil || status != http.StatusOK {
				t.Errorf("deleting is answered %d %s, %v", status, answer, err)
			}
		})
		gatewaytest.Await(t, "the end of the session", func() bool { return len(contents(t, url, "api:task")) == 0 })
	}
}
