package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/metrics"
)

func scrape(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// countOneOfEach has one of everything happen.
func countOneOfEach(m *metrics.Metrics) {
	m.Accepted("telegram", 3)
	m.Committed(conversation.Run{
		Kind: conversation.KindAgent, Status: conversation.StatusDone, StartedAt: time.Now().Add(-2 * time.Second),
		Conversation: conversation.Conversation{Idle: time.Hour},
		Steps: []steps.Step{{Kind: steps.Model}, {Kind: steps.Tool, Name: "clock"}, {Kind: steps.Tool, Name: "clock", Error: "no"},
			{Kind: steps.Tool, Name: "invented", Error: "no"}},
	})
	m.Attempted(metrics.ModelCall{Model: "m", Outcome: "done", Took: time.Second, FirstByte: time.Millisecond, Prompt: 100, Completion: 7})
	m.Attempted(metrics.ModelCall{Model: "m", Outcome: "busy", Took: time.Second})
	for _, kind := range []activity.OutcomeKind{activity.Sent, activity.Retried, activity.Failed} {
		m.Delivered(activity.Outcome{Channel: "telegram", Kind: kind, After: time.Second})
	}
	m.Embedded(metrics.EmbeddingCall{Tokens: 40, Took: time.Millisecond})
	m.Embedded(metrics.EmbeddingCall{Query: true, Failed: true, Took: time.Millisecond})
	m.Answered("GET /x", 200, time.Millisecond)
	m.Answered("", 404, time.Millisecond)
}

// The alarms of operators read these lines.
func TestMetricsInPrometheusFormat(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Deps{Version: "v1.2.3", Ready: func(context.Context) (bool, map[string]bool) {
		return false, map[string]bool{"telegram": false, "web": true}
	}, Sessions: func(context.Context) (int64, error) { return 12, nil }, AtWork: func() int64 { return 3 }, VectorsLeft: func(context.Context) (int64, error) { return 60, nil }, Embeddings: func(context.Context) ([]usage.Embeddings, error) {
		return []usage.Embeddings{{Model: "nomic", Requests: 540, Tokens: 1_200_000, Cost: 0.024}}, nil
	}, Queues: func(context.Context) ([]bots.Queue, error) {
		return []bots.Queue{
			{Channel: "discord", Account: "1", Waiting: 3, OldestWaiting: time.Now().Add(time.Hour), Due: 2, Held: 1},
			{Channel: "discord", Account: "2", Waiting: 1, OldestWaiting: time.Now().Add(2 * time.Hour)},
		}, nil
	}})
	m.Expect(metrics.Expected{Channels: []string{"telegram"}, Models: []string{"m"}, Tools: []string{"clock"}, Failures: []string{"busy"}})
	countOneOfEach(m)
	text := scrape(m)
	for _, line := range []string{
		`parley_inbound_total{channel="telegram"} 3`,
		`parley_runs_total{kind="agent",status="done"} 1`,
		`parley_run_seconds_count{kind="agent"} 1`,
		`parley_run_seconds_bucket{kind="agent",le="1"} 0`,
		`parley_tool_calls_total{outcome="done",tool="clock"} 1`,
		`parley_tool_calls_total{outcome="failed",tool="clock"} 1`,
		`parley_tool_calls_total{outcome="failed",tool="other"} 1`,
		`parley_expirations_total{reason="rest"} 1`,
		`parley_ready 0`,
		`parley_channel_up{channel="telegram"} 0`,
		`parley_channel_up{channel="web"} 1`,
		`parley_sessions 12`,
		`parley_sessions_at_work 3`,
		`parley_model_calls_total{model="m",outcome="done"} 1`,
		`parley_model_calls_total{model="m",outcome="busy"} 1`,
		`parley_model_call_seconds_count{model="m"} 2`,
		`parley_model_first_byte_seconds_count{model="m"} 1`,
		`parley_tokens_total{direction="prompt",model="m"} 100`,
		`parley_tokens_total{direction="completion",model="m"} 7`,
		`parley_deliveries_total{channel="telegram",outcome="sent"} 1`,
		`parley_deliveries_total{channel="telegram",outcome="retried"} 1`,
		`parley_deliveries_total{channel="telegram",outcome="failed"} 1`,
		`parley_delivery_seconds_count{channel="telegram"} 1`,
		`parley_http_requests_total{route="GET /x",status="200"} 1`,
		`parley_http_requests_total{route="",status="404"} 1`,
		`parley_embedding_calls_total{kind="messages",outcome="done"} 1`,
		`parley_embedding_calls_total{kind="query",outcome="failed"} 1`,
		`parley_embedding_call_seconds_count{kind="query"} 1`,
		`parley_embedding_tokens_total{kind="messages"} 40`,
		`parley_embeddings_left 60`,
		`parley_embeddings_stored_requests_total{model="nomic"} 540`,
		`parley_embeddings_stored_tokens_total{model="nomic"} 1.2e+06`,
		`parley_embeddings_stored_cost_total{model="nomic"} 0.024`,
		`parley_inbox_waiting{channel="discord"} 4`,
		`parley_inbox_oldest_seconds{channel="discord"} 0`,
		`parley_outbox_due{channel="discord"} 2`,
		`parley_outbox_held{channel="discord"} 1`,
		`parley_build_info{goversion="`,
		`version="v1.2.3"} 1`,
		`go_goroutines `,
		`process_resident_memory_bytes `,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("missing: %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// Counters are there before their first event: Prometheus sees no increase in a counter that appears with it.
func TestCountersBeginWithZero(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Deps{})
	m.Expect(metrics.Expected{Channels: []string{"telegram"}, Models: []string{"m"}, Tools: []string{"clock"}, Failures: []string{"busy"}})
	text := scrape(m)
	for _, line := range []string{
		`parley_inbound_total{channel="telegram"} 0`,
		`parley_runs_total{kind="agent",status="failed"} 0`,
		`parley_tool_calls_total{outcome="failed",tool="clock"} 0`,
		`parley_tool_calls_total{outcome="done",tool="other"} 0`,
		`parley_model_calls_total{model="m",outcome="busy"} 0`,
		`parley_tokens_total{direction="completion",model="m"} 0`,
		`parley_deliveries_total{channel="telegram",outcome="retried"} 0`,
		`parley_expirations_total{reason="messages"} 0`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("missing: %s", line)
		}
	}
}

// When the store fails, the other metrics are needed most.
func TestUnreadableQueuesHideNoOtherMetric(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Deps{Queues: func(context.Context) ([]bots.Queue, error) { return nil, errors.New("disk I/O error") }})
	if text := scrape(m); !strings.Contains(text, "parley_build_info") || strings.Contains(text, "parley_inbox_waiting{") {
		t.Errorf("the metrics read %s", text)
	}
}

// A server that names another model with each answer must not fill the memory: beyond 64 names, all count as "other".
func TestFurtherModelsAreCountedTogether(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Deps{Queues: func(context.Context) ([]bots.Queue, error) { return nil, nil }})
	for i := range 1000 {
		m.Attempted(metrics.ModelCall{Model: fmt.Sprint("model-", i), Outcome: "done"})
	}
	m.Attempted(metrics.ModelCall{Model: "model-0", Outcome: "done"})
	text := scrape(m)
	if n := strings.Count(text, "\nparley_model_calls_total{"); n != 65 {
		t.Errorf("%d models have metrics of their own", n)
	}
	for _, line := range []string{`parley_model_calls_total{model="model-0",outcome="done"} 2`, `parley_model_calls_total{model="other",outcome="done"} 936`} {
		if !strings.Contains(text, line) {
			t.Errorf("missing: %s", line)
		}
	}
}

// Metrics are read while events are counted. This test can only fail with -race.
func TestMetricsAreReadWhileEventsAreCounted(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Deps{Queues: func(context.Context) ([]bots.Queue, error) { return nil, nil }})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				countOneOfEach(m)
				scrape(m)
			}
		})
	}
	all.Wait()
}

// Every message passes these hooks, also where nobody reads the metrics.
func BenchmarkHooksThatNobodyReads(b *testing.B) {
	m := metrics.New(metrics.Deps{})
	for b.Loop() {
		m.Accepted("telegram", 1)
		m.Delivered(activity.Outcome{Channel: "telegram", Kind: activity.Sent})
	}
}

// The durations and ages are those of the clock that the times come from, also on a machine whose own is wrong.
func TestAgesGoByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-time.Hour)
	m := metrics.New(metrics.Deps{Now: func() time.Time { return now }, Queues: func(context.Context) ([]bots.Queue, error) {
		return []bots.Queue{{Channel: "telegram", Waiting: 1, OldestWaiting: now.Add(-5 * time.Second)}}, nil
	}})
	m.Committed(conversation.Run{Kind: conversation.KindAgent, Status: conversation.StatusDone, StartedAt: now.Add(-2 * time.Second)})
	text := scrape(m)
	for _, line := range []string{`parley_run_seconds_sum{kind="agent"} 2`, `parley_inbox_oldest_seconds{channel="telegram"} 5`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
}
