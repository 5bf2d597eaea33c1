// Package embedding has the vectors of messages made by a model, behind their commit, and those of queries while somebody
// searches. Nothing waits for its server: a search without an answer finds messages by their words, and what has no
// vector gets one later.
package embedding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"parley/conversation"
	"parley/conversation/usage"
	"parley/conversation/vectors"
	"parley/internal/clock"
	"parley/llm"
)

// Model makes vectors. *llm.Embedder is one.
type Model interface {
	// Embed returns the vectors of texts in their order, and the tokens that the server has counted. The error is an
	// *llm.EmbeddingError.
	Embed(ctx context.Context, texts []string) (vectors [][]float32, tokens int, err error)
}

// Config is what New needs.
type Config struct {
	Model        Model
	Name         string        // name of the model
	Dimensions   int           // dimensions that the model is asked for; 0 = as many as it has
	Price        float64       // price of a million tokens; 0 = not known
	QueryTimeout time.Duration // how long a search waits for the vector of its query
	Log          *slog.Logger

	// Called is called after each request, from any goroutine. It must not block. nil: nobody counts.
	Called func(Call)

	// Pause is how long Run waits where there is nothing to do, and at first after a failure. 0 = two seconds.
	Pause time.Duration
}

// Call is one request.
type Call struct {
	Query  bool // the call was for a search; else for messages
	Texts  int
	Tokens int // tokens that the server has counted
	Took   time.Duration
	Err    error
}

// Embeddings makes the vectors of a store. It is safe for concurrent use.
type Embeddings struct {
	cfg     Config
	vectors *vectors.Vectors
	owner   vectors.Owner
	queries queries

	usage  *usage.Usage
	called chan struct{} // holds a value while used may have requests

	generation vectors.Generation // set by begin
	foreign    atomic.Bool        // another process uses another model

	storing sync.Mutex // held while requests are on their way from used to the store; taken before mu
	mu      sync.Mutex
	used    usage.Embeddings // requests that are not stored yet
	failure string           // why the server could not be used last, "" if it could
	since   time.Time
}

// process is a name of this process that no other one has.
var process = uuid.NewString()

// New returns what makes the vectors of a store. The caller starts Run, and gives it to the store's SetEmbedder.
func New(store *conversation.Store, cfg Config) *Embeddings {
	if cfg.Pause == 0 {
		cfg.Pause = 2 * time.Second
	}
	return &Embeddings{
		cfg: cfg, vectors: vectors.New(store), owner: vectors.Owner{Process: process, Name: uuid.NewString()}, queries: newQueries(),
		usage: usage.New(store), called: make(chan struct{}, 1),
	}
}

// Status is how the vectors fare.
type Status struct {
	Model       string
	Done, Total int64     // messages that have their vectors or need none, and all messages
	Failure     string    // why the latest request failed; "" if it worked
	Since       time.Time // when requests began to fail

	// Used are all requests to this model that the database knows of, those of other processes
	// and of earlier starts among them. Cost is 0 where no price is known.
	Used usage.Embeddings
}

// Status returns how the vectors fare.
func (e *Embeddings) Status(ctx context.Context) (Status, error) {
	p, err := e.vectors.Progress(ctx)
	if err != nil {
		return Status{}, err
	}
	e.storing.Lock()
	defer e.storing.Unlock()
	all, err := e.usage.AllEmbeddings(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{Model: e.cfg.Name, Done: p.Done, Total: p.Total, Failure: e.failure, Since: e.since, Used: e.used}
	s.Used.Model = e.cfg.Name
	for _, used := range all {
		if used.Model == e.cfg.Name {
			s.Used.Add(used)
		}
	}
	return s, err
}

const (
	maxPause    = 5 * time.Minute  // longest pause between two attempts while the server fails
	maxAsked    = time.Hour        // longest pause that the server may ask for
	callTimeout = time.Minute      // time limit of a request for messages; shorter than a claim of them lasts
	reportEvery = 30 * time.Second // time between two reports of progress in the log
	manyLeft    = 1000             // messages without a vector, from which on progress is logged
)

// Run makes the vectors of all messages, and of new ones as they come, until ctx ends. It also stores what
// all requests have used.
//
// Of several processes with one database, one makes vectors. The others take over when it ends.
func (e *Embeddings) Run(ctx context.Context) {
	var storing sync.WaitGroup
	storing.Go(func() { e.storeUsed(ctx) })
	defer storing.Wait()
	e.makeVectors(ctx)
}

func (e *Embeddings) makeVectors(ctx context.Context) {
	for !e.begin(ctx) {
		if clock.Sleep(ctx, e.cfg.Pause) != nil {
			return
		}
	}
	unlock := e.lock(ctx)
	if unlock == nil {
		return
	}
	defer unlock()
	defer func() {
		if err := e.vectors.Release(context.WithoutCancel(ctx), e.owner); err != nil {
			e.cfg.Log.Warn("claim of messages not released", "error", err)
		}
	}()
	pause, swept := e.cfg.Pause, false
	var reported time.Time
	for ctx.Err() == nil {
		more, err := e.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.failed(err)
			if clock.Sleep(ctx, max(pause, askedBy(err))) != nil {
				return
			}
			pause = min(2*pause, maxPause)
			continue
		case !more && !swept:
			swept = e.sweep(ctx)
			continue
		case !more:
			if clock.Sleep(ctx, e.cfg.Pause) != nil {
				return
			}
			continue
		}
		e.worked()
		pause = e.cfg.Pause
		reported = e.report(ctx, reported)
	}
}

// askedBy returns the wait that a server asks for with an error, 0 if it asks for none.
func askedBy(err error) time.Duration {
	var failed *llm.EmbeddingError
	if errors.As(err, &failed) {
		return min(failed.RetryAfter, maxAsked)
	}
	return 0
}

// begin says which model makes the vectors from now on. It reports false if that could not be stored.
func (e *Embeddings) begin(ctx context.Context) bool {
	g, renewed, err := e.vectors.Use(ctx, vectors.Model{Name: e.cfg.Name, Dimensions: e.cfg.Dimensions})
	if err != nil {
		e.cfg.Log.Warn("embedding model not stored; trying again", "error", err)
		return false
	}
	e.generation = g
	if renewed {
		e.cfg.Log.Info("embedding model changed; all messages get new vectors", "model", e.cfg.Name, "dimensions", e.cfg.Dimensions)
	}
	return true
}

// lock waits until no other process makes vectors. It returns nil when ctx ends.
func (e *Embeddings) lock(ctx context.Context) (unlock func()) {
	for failed := false; ; {
		unlock, ok, err := e.vectors.Lock()
		if ok {
			return unlock
		}
		if err != nil && !failed {
			failed = true
			e.cfg.Log.Warn("lock of the embeddings not taken; trying again", "error", err)
		}
		if clock.Sleep(ctx, e.cfg.Pause) != nil {
			return nil
		}
	}
}

// step makes the vectors of the next messages. more reports whether there were any.
func (e *Embeddings) step(ctx context.Context) (more bool, err error) {
	claim, more, err := e.vectors.Claim(ctx, e.generation, e.owner)
	e.foreign.Store(errors.Is(err, vectors.ErrOtherModel))
	if err != nil || len(claim.Messages) == 0 {
		return more, err
	}
	made, err := e.embed(ctx, claim)
	if err != nil {
		return true, err
	}
	_, err = e.vectors.Store(ctx, claim, made)
	return true, err
}

// embed returns the vectors of each claimed message.
func (e *Embeddings) embed(ctx context.Context, claim vectors.Claim) ([][][]float32, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout*3/4, fmt.Errorf("the embeddings server took longer than %s", callTimeout*3/4))
	defer cancel()
	var texts []string
	var counts []int
	for _, m := range claim.Messages {
		chunks := chunksOf(m.Text)
		texts, counts = append(texts, chunks...), append(counts, len(chunks))
	}
	length := claim.Length
	var list [][]float32
	for len(texts) > 0 {
		n := min(len(texts), textsAtOnce)
		made, err := e.call(ctx, texts[:n], &length)
		if err != nil {
			return nil, err
		}
		list, texts = append(list, made...), texts[n:]
	}
	vectors := make([][][]float32, len(counts))
	for i, n := range counts {
		for _, vector := range list[:n] {
			if vector != nil {
				vectors[i] = append(vectors[i], vector)
			}
		}
		list = list[n:]
	}
	return vectors, nil
}

// textsAtOnce is the most texts of a request.
const textsAtOnce = 64

// call returns the vectors of texts, which must have a length, 0 = any. Where the server refuses some of them, it sends
// each alone, and those that are refused then have none.
func (e *Embeddings) call(ctx context.Context, texts []string, length *int) ([][]float32, error) {
	made, err := e.request(ctx, texts)
	var failed *llm.EmbeddingError
	switch {
	case errors.As(err, &failed) && failed.Refused && len(texts) > 1:
		made = nil
		for i := range texts {
			one, err := e.call(ctx, texts[i:i+1], length)
			if err != nil {
				return nil, err
			}
			made = append(made, one...)
		}
		return made, nil
	case errors.As(err, &failed) && failed.Refused:
		if _, err := e.request(ctx, []string{"a text"}); err != nil { // it takes no text at all
			return nil, failed
		}
		e.cfg.Log.Warn("text refused by the embeddings server; it is found by its words alone", "bytes", len(texts[0]), "error", failed)
		return [][]float32{nil}, nil
	case err != nil:
		return nil, err
	}
	for i, vector := range made {
		if *length == 0 {
			*length = len(vector)
		}
		if len(vector) != *length {
			return nil, &llm.EmbeddingError{Misconfigured: true, Err: fmt.Errorf(
				"the server gives vectors of %d dimensions, and gave %d before: if it has another model now, name that one in [embeddings]", len(vector), *length)}
		}
		if !points(vector) {
			made[i] = nil
		}
	}
	return made, nil
}

// points reports whether a vector has a direction.
func points(vector []float32) bool {
	sum := 0.0
	for _, value := range vector {
		sum += float64(value) * float64(value)
	}
	return sum > 0 && !math.IsInf(sum, 0) && !math.IsNaN(sum)
}

// request makes one request.
func (e *Embeddings) request(ctx context.Context, texts []string) ([][]float32, error) {
	return e.counted(ctx, false, texts)
}

func (e *Embeddings) counted(ctx context.Context, query bool, texts []string) ([][]float32, error) {
	began := time.Now()
	made, tokens, err := e.cfg.Model.Embed(ctx, texts)
	e.count(tokens, err)
	if e.cfg.Called != nil {
		e.cfg.Called(Call{Query: query, Texts: len(texts), Tokens: tokens, Took: time.Since(began), Err: err})
	}
	return made, err
}

// failed notes a failure, and logs it when it is the first or another one.
func (e *Embeddings) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == "" {
		e.since = time.Now()
	}
	if e.failure != err.Error() {
		e.failure = err.Error()
		e.cfg.Log.Warn("embeddings failed; messages are found by their words meanwhile", "error", err)
	}
}

// worked notes that the server can be used.
func (e *Embeddings) worked() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != "" {
		e.cfg.Log.Info("embeddings work again", "after", time.Since(e.since).Round(time.Second))
	}
	e.failure, e.since = "", time.Time{}
}

// report logs how far the vectors have come if many messages have none, at most twice a minute.
func (e *Embeddings) report(ctx context.Context, reported time.Time) time.Time {
	if time.Since(reported) < reportEvery {
		return reported
	}
	p, err := e.vectors.Progress(ctx)
	if err == nil && p.Total-p.Done >= manyLeft {
		e.cfg.Log.Info("embedding messages", "model", e.cfg.Name, "done", p.Done, "of", p.Total)
	}
	return time.Now()
}

// sweep deletes some vectors of earlier models. done reports that there are none.
func (e *Embeddings) sweep(ctx context.Context) (done bool) {
	p, err := e.vectors.Progress(ctx)
	if err == nil && p.Done < p.Total { // another process is at the messages
		return clock.Sleep(ctx, e.cfg.Pause) != nil
	}
	if err == nil {
		done, err = e.vectors.Sweep(ctx)
	}
	if err != nil {
		e.cfg.Log.Warn("vectors of an earlier model not deleted; trying again", "error", err)
		_ = clock.Sleep(ctx, e.cfg.Pause) // which only fails when ctx ends
	}
	return done
}
