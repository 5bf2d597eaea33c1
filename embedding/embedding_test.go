package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/conversation/usage"
	"parley/internal/waittest"
	"parley/llm"
)

// server is an embeddings server like OpenAI's: https://platform.openai.com/docs/api-reference/embeddings/create. Texts
// about the same subject have vectors of the same direction.
type server struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []string                                         // all texts
	answer func(w http.ResponseWriter, input []string) bool // answers in place of the server; false: it does not
	length int
}

var subjects = []string{"car automobile vehicle", "cat kitten", "house home"}

func newServer(t *testing.T) *server {
	s := &server{length: 4}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Input      []string `json:"input"`
		Model      string   `json:"model"`
		Dimensions int      `json:"dimensions"`
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	switch {
	case r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost:
		http.Error(w, `{"error": {"message": "no such address"}}`, http.StatusNotFound)
		return
	case r.Header.Get("Authorization") != "Bearer the-right-key":
		http.Error(w, `{"error": {"message": "Incorrect API key provided: `+r.Header.Get("Authorization")+`"}}`, http.StatusUnauthorized)
		return
	case err != nil || len(request.Input) == 0 || slices.Contains(request.Input, "") || len(request.Input) > 2048:
		http.Error(w, `{"error": {"message": "'$.input' is invalid"}}`, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil && s.answer(w, request.Input) {
		return
	}
	s.asked = append(s.asked, request.Input...)
	length := s.length
	if request.Dimensions > 0 {
		length = request.Dimensions
	}
	var data []map[string]any
	for i, text := range slices.Backward(request.Input) { // the order is told by the index alone
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": vectorOf(text, length)})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": request.Model, "data": data,
		"usage": map[string]int{"prompt_tokens": 7, "total_tokens": 7}})
}

func vectorOf(text string, length int) []float32 {
	vector := make([]float32, length)
	vector[length-1] = 0.1
	for i, words := range subjects {
		for _, word := range strings.Fields(words) {
			if i < length && strings.Contains(text, word) {
				vector[i]++
			}
		}
	}
	return vector
}

// set changes the server's behaviour.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// times returns how often a text was sent.
func (s *server) times(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if asked == text {
			n++
		}
	}
	return n
}

func (s *server) embeddings(store *conversation.Store, name string, log *waittest.Buffer) *Embeddings {
	cfg := llm.EmbeddingsConfig{BaseURL: s.URL + "/v1/", APIKey: "the-right-key", Model: name}
	return New(store, Config{
		Model: llm.NewEmbedder(cfg, func(string) string { return "" }), Name: name, QueryTimeout: 90 * time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil)), Pause: time.Millisecond,
	})
}

// run makes vectors until the condition holds, and waits for the end.
func run(t *testing.T, e *Embeddings, until func(Status) bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		s, err := e.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if until(s) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
		time.Sleep(time.Millisecond)
	}
}

func isDone(s Status) bool { return s.Total > 0 && s.Done == s.Total && s.Failure == "" }

func addMessages(t *testing.T, s *conversation.Store, key conversation.Key, texts ...string) {
	t.Helper()
	var list []conversation.Message
	for _, text := range texts {
		list = append(list, storetest.User(text))
	}
	storetest.Tell(t, s, key, list...)
	storetest.Chores(t, s)
}

func find(t *testing.T, s *conversation.Store, key conversation.Key, words string) (texts []string) {
	t.Helper()
	hits, err := search.New(s).Find(t.Context(), search.Query{Key: key, Words: words, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		if h.Key != key {
			t.Errorf("%s has found a message of %s", key, h.Key)
		}
		texts = append(texts, h.Snippet.Mark("", ""))
	}
	return texts
}

// Messages are found by other words with the same meaning, in their own session only; a quoted phrase is found only as
// it is written.
func TestSearchFindsWhatIsSaidInOtherWords(t *testing.T) {
	t.Parallel()
	store, server, log := storetest.New(t), newServer(t), &waittest.Buffer{}
	const other = "cli:other"
	addMessages(t, store, storetest.Chat, "my automobile is red", "the weather is fine", "a kitten sleeps")
	addMessages(t, store, other, "another automobile, which is secret")
	e := server.embeddings(store, "m", log)
	run(t, e, isDone)
	if got := find(t, store, storetest.Chat, "vehicle"); len(got) != 0 {
		t.Errorf("without an embedder: %q", got)
	}
	store.SetEmbedder(e.EmbedQuery)
	if got := find(t, store, storetest.Chat, "which vehicle"); len(got) == 0 || got[0] != "my automobile is red" {
		t.Errorf("in other words: %q", got)
	}
	if got := find(t, store, storetest.Chat, "vehicle weather"); len(got) < 2 || got[0] != "the weather is fine" || !slices.Contains(got, "my automobile is red") {
		t.Errorf("words and meaning: %q", got)
	}
	if got := find(t, store, storetest.Chat, `"vehicle"`); len(got) != 0 {
		t.Errorf("a quoted word: %q", got)
	}
	for range 5 {
		find(t, store, other, "vehicle")
	}
	if n := server.times("vehicle"); n != 1 {
		t.Errorf("the same query is embedded %d times", n)
	}
}

func TestSearchOverSessionsFindsOtherWordsWithinItsScope(t *testing.T) {
	t.Parallel()
	store, server := storetest.New(t), newServer(t)
	addMessages(t, store, "cli:one", "my automobile is red", "the weather is fine")
	addMessages(t, store, "cli:two", "a car of my own")
	addMessages(t, store, "api:three", "an automobile for rent")
	e := server.embeddings(store, "m", &waittest.Buffer{})
	run(t, e, isDone)
	store.SetEmbedder(e.EmbedQuery)
	for _, c := range []struct {
		scope search.Scope
		want  []conversation.Key
	}{
		{search.Scope{}, []conversation.Key{"api:three", "cli:one", "cli:two"}},
		{search.Scope{Channel: "cli"}, []conversation.Key{"cli:one", "cli:two"}},
		{search.Scope{Prefix: "api:"}, []conversation.Key{"api:three"}},
	} {
		hits, err := search.New(store).Find(t.Context(), search.Query{Scope: c.scope, Words: "vehicle", Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		found := map[conversation.Key]bool{}
		for _, h := range hits {
			found[h.Key] = true
		}
		for _, key := range c.want {
			if !found[key] {
				t.Errorf("%+v: nothing of %s is among %v", c.scope, key, found)
			}
		}
		if len(found) != len(c.want) {
			t.Errorf("%+v: found %v, want %v", c.scope, found, c.want)
		}
	}
}

// While the server is away, search finds messages by their words without waiting for it, and no vector is lost.
func TestOutageDelaysOnlyTheVectors(t *testing.T) {
	t.Parallel()
	store, server, log := storetest.New(t), newServer(t), &waittest.Buffer{}
	addMessages(t, store, storetest.Chat, "my automobile is red", "a car is blue")
	queries := 0
	server.set(func() {
		server.answer = func(w http.ResponseWriter, input []string) bool {
			if slices.Contains(input, "car") {
				queries++
			}
			http.Error(w, "<html>Bad gateway</html>", http.StatusBadGateway)
			return true
		}
	})
	e := server.embeddings(store, "m", log)
	store.SetEmbedder(e.EmbedQuery)
	run(t, e, func(s Status) bool { return s.Failure != "" })
	for range 5 {
		if got := find(t, store, storetest.Chat, "car"); len(got) != 1 {
			t.Errorf("while the server is away: %q", got)
		}
	}
	server.set(func() {
		if queries != 1 {
			t.Errorf("%d queries were sent to a server that fails", queries)
		}
		server.answer = nil
	})
	run(t, e, isDone)
	e.queries.closed = time.Time{}
	if got := find(t, store, storetest.Chat, "car"); len(got) != 2 {
		t.Errorf("when it is back: %q", got)
	}
	if !strings.Contains(log.String(), "embeddings work again") {
		t.Errorf("log: %s", log)
	}
}

// After a rate limit, neither messages nor queries are sent to the server before the time that it names.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	store, server, log := storetest.New(t), newServer(t), &waittest.Buffer{}
	addMessages(t, store, storetest.Chat, "my automobile is red")
	requests := 0
	server.answer = func(w http.ResponseWriter, _ []string) bool {
		requests++
		w.Header().Set("Retry-After", "600")
		http.Error(w, `{"error": {"message": "slow down"}}`, http.StatusTooManyRequests)
		return true
	}
	e := server.embeddings(store, "m", log)
	store.SetEmbedder(e.EmbedQuery)
	run(t, e, func(s Status) bool { return s.Failure != "" }) // without the limit, it would try again within milliseconds
	find(t, store, storetest.Chat, "car")
	if _, err := e.queries.get("another"); !errors.Is(err, errResting) {
		t.Errorf("a query would be sent: %v", err)
	}
	if wait := time.Until(e.queries.closed); wait < 5*time.Minute {
		t.Errorf("queries are sent again after %s", wait)
	}
	s, err := e.Status(t.Context())
	if err != nil || requests != 2 || s.Used.Requests != 2 || s.Used.Tokens != 0 {
		t.Errorf("%d requests were made, %+v, %v", requests, s, err)
	}
}

// Requests are counted with their tokens by the server, and priced.
func TestRequestsAreCountedAndPriced(t *testing.T) {
	t.Parallel()
	store, server := storetest.New(t), newServer(t)
	addMessages(t, store, storetest.Chat, "my automobile is red")
	e := server.embeddings(store, "m", &waittest.Buffer{})
	var calls []Call
	e.cfg.Price, e.cfg.Called = 0.5, func(c Call) { calls = append(calls, c) }
	store.SetEmbedder(e.EmbedQuery)
	run(t, e, isDone)
	find(t, store, storetest.Chat, "car")
	if len(calls) != 2 || calls[0].Query || !calls[1].Query || calls[0].Tokens != 7 || calls[1].Tokens != 7 {
		t.Errorf("%+v", calls)
	}
	counted := func(e *Embeddings, want usage.Embeddings) {
		t.Helper()
		if s, err := e.Status(t.Context()); err != nil || s.Used != want {
			t.Errorf("%+v, %v, want %+v", s.Used, err, want)
		}
	}
	twice := usage.Embeddings{Model: "m", Requests: 2, Tokens: 14, Cost: 14 * 0.5 / 1e6}
	counted(e, twice)

	// Another start knows what was used before it, and adds to that.
	run(t, e, isDone)
	again := server.embeddings(store, "m", &waittest.Buffer{})
	counted(again, twice)
	store.SetEmbedder(again.EmbedQuery)
	find(t, store, storetest.Chat, "cat")
	run(t, again, isDone)
	thrice := usage.Embeddings{Model: "m", Requests: 3, Tokens: 21, Cost: twice.Cost} // no price was set this time
	counted(server.embeddings(store, "m", &waittest.Buffer{}), thrice)
	now := time.Now()
	stats, err := usage.New(store).Stats(t.Context(), now.Add(-time.Hour), now.Add(time.Minute), time.Hour)
	if err != nil || len(stats.Embeddings) != 1 || stats.Embeddings[0] != thrice {
		t.Errorf("statistics: %+v, %v", stats.Embeddings, err)
	}
}

// A server that hangs delays a search no longer than configured.
func TestHangingServerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	store, server := storetest.New(t), newServer(t)
	addMessages(t, store, storetest.Chat, "a car is blue")
	release := make(chan struct{})
	defer close(release)
	server.answer = func(http.ResponseWriter, []string) bool { <-release; return true }
	e := server.embeddings(store, "m", &waittest.Buffer{})
	e.cfg.QueryTimeout = 20 * time.Millisecond
	store.SetEmbedder(e.EmbedQuery)
	if got := find(t, store, storetest.Chat, "car"); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// The messages of a request during which the process ends are sent again by the next one. Messages that have their
// vectors are not sent again.
func TestVectorsSurviveAnEndDuringARequest(t *testing.T) {
	t.Parallel()
	store, server := storetest.New(t), newServer(t)
	var texts []string
	for i := range 500 {
		texts = append(texts, fmt.Sprintf("message %d", i))
	}
	addMessages(t, store, storetest.Chat, texts...)
	for range 6 {
		left := 1 // requests that are answered
		ended := make(chan struct{})
		server.set(func() {
			server.answer = func(w http.ResponseWriter, _ []string) bool {
				if left--; left >= 0 {
					return false
				}
				if left == -1 {
					close(ended)
				}
				panic(http.ErrAbortHandler) // the connection ends without an answer
			}
		})
		run(t, server.embeddings(store, "m", &waittest.Buffer{}), func(Status) bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
	}
	server.set(func() { server.answer = nil })
	run(t, server.embeddings(store, "m", &waittest.Buffer{}), isDone)
	if n := storetest.Count(t, store, `SELECT count(*) FROM vectors`); n != 500 {
		t.Errorf("%d vectors of 500 messages", n)
	}
	for _, text := range texts {
		if n := server.times(text); n != 1 {
			t.Errorf("%q was sent %d times", text, n)
		}
	}
}

// Several processes share the work, and send no message twice.
func TestProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	store, server := storetest.New(t), newServer(t)
	var texts []string
	for i := range 400 {
		texts = append(texts, fmt.Sprintf("message %d", i))
	}
	addMessages(t, store, storetest.Chat, texts...)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { run(t, server.embeddings(store, "m", &waittest.Buffer{}), isDone) })
	}
	group.Wait()
	for _, text := range texts {
		if n := server.times(text); n != 1 {
			t.Errorf("%q was sent %d times", text, n)
		}
	}
}

// A text that the server refuses is skipped, and the others get their vectors.
func TestRefusedTextIsSkipped(t *testing.T) {
	t.Parallel()
	store, server, log := storetest.New(t), newServer(t), &waittest.Buffer{}
	addMessages(t, store, storetest.Chat, "my automobile", "forbidden", "a car", "a house")
	server.answer = func(w http.ResponseWriter, input []string) bool {
		if !slices.Contains(input, "forbidden") {
			return false
		}
		http.Error(w, `{"error": {"message": "the-right-key says no"}}`, http.StatusBadRequest)
		return true
	}
	run(t, server.embeddings(store, "m", log), isDone)
	if n := storetest.Count(t, store, `SELECT count(*) FROM vectors`); n != 3 {
		t.Errorf("%d vectors", n)
	}
	if text := log.String(); !strings.Contains(text, "refused") || strings.Contains(text, "the-right-key") {
		t.Errorf("log: %s", text)
	}
}

// With another model, all messages get new vectors. A model that changes under the same name is reported, and its vectors are
// not mixed with earlier ones.
func TestChangeOfModel(t *testing.T) {
	t.Parallel()
	store, server, log := storetest.New(t), newServer(t), &waittest.Buffer{}
	addMessages(t, store, storetest.Chat, "my automobile is red", "the weather is fine")
	run(t, server.embeddings(store, "m", log), isDone)
	server.set(func() { server.length = 7 })
	addMessages(t, store, storetest.Chat, "a house")
	run(t, server.embeddings(store, "m", log), func(s Status) bool { return strings.Contains(s.Failure, "7 dimensions, and gave 4") })
	e := server.embeddings(store, "other", log)
	store.SetEmbedder(e.EmbedQuery)
	run(t, e, isDone)
	if got := find(t, store, storetest.Chat, "vehicle"); len(got) != 3 || got[0] != "my automobile is red" {
		t.Errorf("with the other model: %q", got)
	}
	if n := server.times("my automobile is red"); n != 2 || !strings.Contains(log.String(), "embedding model changed") {
		t.Errorf("sent %d times; log: %s", n, log)
	}
}

func TestLongTextsAreCutBetweenWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, " \n\t ": 0, "short": 1, strings.Repeat("word ", 1000): 3, strings.Repeat("字", 2000): 4,
		strings.Repeat("line of text\n", 10_000): maxChunks, strings.Repeat(" ", 10_000) + "end": 1,
	} {
		chunks := chunksOf(text)
		if len(chunks) != want {
			t.Errorf("%.20q has %d chunks, want %d", text, len(chunks), want)
		}
		for _, chunk := range chunks {
			if len(chunk) > chunkBytes || chunk == "" || strings.HasPrefix(chunk, "ord") || !strings.Contains(text, chunk) {
				t.Errorf("%.20q has the chunk %.20q of %d bytes", text, chunk, len(chunk))
			}
		}
	}
}

// The error for a wrong key does not contain the key.
func TestWrongKeyIsReportedWithoutIt(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	e := llm.NewEmbedder(llm.EmbeddingsConfig{BaseURL: server.URL + "/v1", APIKey: "a-wrong-key", Model: "m"}, func(string) string { return "" })
	_, _, err := e.Embed(t.Context(), []string{"text"})
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "a-wrong-key") {
		t.Errorf("%v", err)
	}
}
