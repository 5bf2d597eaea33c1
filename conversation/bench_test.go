package conversation_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/steps"
)

func benchStore(b *testing.B) *conversation.Store {
	b.Helper()
	s, err := conversation.Open(b.Context(), conversation.Config{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// benchSession is a session for many messages and runs.
type benchSession struct {
	b     *testing.B
	store *conversation.Store
	key   conversation.Key
	said  int
}

// say stores a message, and returns the snapshot of its run.
func (s *benchSession) say() conversation.Snapshot {
	s.said++
	in := conversation.Inbound{Key: s.key, SourceID: fmt.Sprintf("%s:%d", s.key, s.said), Address: `{"chat":1}`,
		Text: "What is the weather like in the mountains today?", At: time.Now()}
	if _, err := s.store.Accept(s.b.Context(), nil, in); err != nil {
		s.b.Error(err)
	}
	turn, err := s.store.Begin(s.b.Context(), s.key, 2000)
	if err != nil {
		s.b.Error(err)
	}
	return turn
}

// run returns a run that answers a snapshot, with a number of further messages before the answer.
func (s *benchSession) run(turn conversation.Snapshot, messages int) conversation.Run {
	in := turn.Waiting[0]
	run := conversation.Run{Key: s.key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Replies: []conversation.Delivery{{Address: in.Address, Text: "Snow on the pass."}}, Model: "gpt", Rounds: 1, StartedAt: time.Now()}
	run.Steps = []steps.Step{{Kind: steps.Model, Name: "gpt", At: run.StartedAt, Took: 2 * time.Second, FirstByte: 300 * time.Millisecond,
		Prompt: 1200, Completion: 90, Shown: 30, Window: 1150}}
	for i := range max(2, messages) {
		m := conversation.Message{Role: conversation.RoleUser, Content: in.Text, Tokens: 20}
		if i%2 == 1 {
			m = conversation.Message{Role: conversation.RoleAssistant, Content: "It rains in the valley, and there is snow on the pass.", Tokens: 20}
		}
		run.Messages = append(run.Messages, m)
	}
	return run
}

func (s *benchSession) commit(run conversation.Run) {
	if _, err := s.store.Commit(s.b.Context(), run); err != nil {
		s.b.Error(err)
	}
}

// BenchmarkAccept stores one poll's batch from a hundred chats, with its cursor.
func BenchmarkAccept(b *testing.B) {
	s := benchStore(b)
	batch := make([]conversation.Inbound, 100)
	for n := 0; b.Loop(); n++ {
		for i := range batch {
			batch[i] = conversation.Inbound{Key: conversation.Key(fmt.Sprintf("cli:%d", i)), SourceID: fmt.Sprintf("%d:%d", n, i), Text: "Hello there, how are you?", At: time.Now()}
		}
		if _, err := s.Accept(b.Context(), []conversation.Cursor{{Name: "bench", Value: fmt.Sprint(n)}}, batch...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(batch)), "µs/message")
}

// BenchmarkBegin opens conversations of very different lengths with the same
// window, which a hundred messages fill.
func BenchmarkBegin(b *testing.B) {
	for _, length := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("messages=%d", length), func(b *testing.B) {
			s := &benchSession{b: b, store: benchStore(b), key: "cli:bench"}
			for range max(1, length/1000) {
				s.commit(s.run(s.say(), min(length, 1000)))
			}
			s.say()
			for b.Loop() {
				turn, err := s.store.Begin(b.Context(), s.key, 2000)
				if err != nil || len(turn.History) != 100 {
					b.Fatal(len(turn.History), err)
				}
			}
		})
	}
}

// BenchmarkCommit commits one session's runs one after another, each with its own sync of the disk; the
// time of Accept is not counted.
func BenchmarkCommit(b *testing.B) {
	s := &benchSession{b: b, store: benchStore(b), key: "cli:bench"}
	for b.Loop() {
		b.StopTimer()
		run := s.run(s.say(), 2)
		b.StartTimer()
		s.commit(run)
	}
}

// BenchmarkTurn200 measures all work of the store for an answer, from Accept to Commit, in two hundred
// sessions at once.
func BenchmarkTurn200(b *testing.B) {
	store := benchStore(b)
	var sessions atomic.Int64
	b.SetParallelism(max(1, 200/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		s := &benchSession{b: b, store: store, key: conversation.Key(fmt.Sprintf("cli:%d", sessions.Add(1)))}
		for pb.Next() {
			s.commit(s.run(s.say(), 2))
		}
	})
}
