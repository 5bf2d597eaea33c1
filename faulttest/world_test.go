package faulttest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/llm/llmtest"
)

// patience bounds how long a test waits for what must happen. It is far from
// what anything takes, and no test asserts on it.
const patience = 90 * time.Second

const apiKey = "sk-faulttest-must-not-leak"

// world is what outlives a gateway: the chats, the model, the disk.
type world struct {
	t        *testing.T
	telegram *telegramtest.Server
	model    *llmtest.Server
	dir      string
	database string
	log      *record // of every process, standard error
	refusals int     // calls that the test makes the model's API refuse

	mu      sync.Mutex
	process int              // number of the latest process, from 1
	replies []reply          // what the chats got, in order
	said    map[int][]string // by chat, what people wrote, in order
}

// reply is a message that a chat got.
type reply struct {
	chat    int
	text    string
	process int // which was alive
}

// settings are the lines of the configuration that differ between tests.
type settings struct {
	maxRuns  int    // default 256
	drain    string // default 1m
	database string // default in the test's own folder
}

// newWorld makes a world without a gateway. When the test ends, all that any
// process logged and stored is searched for secrets, crashes and data races.
func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	w := &world{
		t: t, telegram: telegramtest.New(t), model: llmtest.New(t), dir: t.TempDir(),
		log: &record{}, said: map[int][]string{},
	}
	w.database = s.database
	if w.database == "" {
		w.database = filepath.Join(w.dir, "conversations.db")
	}
	w.model.RequireKey(apiKey)
	w.model.Reply(answerTo)
	w.onSend(nil, nil)
	w.configure(s)
	t.Cleanup(w.inspectTraces)
	return w
}

func (w *world) configPath() string { return filepath.Join(w.dir, "config.toml") }

func (w *world) configure(s settings) {
	if s.maxRuns == 0 {
		s.maxRuns = 256
	}
	if s.drain == "" {
		s.drain = "1m"
	}
	text := fmt.Sprintf(`
database = %q
[log]
level = "debug"
[llm]
base_url = %q
api_key = %q
model = "test-model"
[agent]
max_concurrent_runs = %d
drain_timeout = %q
[telegram]
token = %q
api_url = %q
access = "open"
send_rate = 0
chat_rate = 0
`, w.database, w.model.URL(), apiKey, s.maxRuns, s.drain, telegramtest.Token, w.telegram.URL)
	w.must(os.WriteFile(w.configPath(), []byte(text), 0o644))
}

// inspectTraces fails the test if a process crashed, raced, told a secret, or
// sent the model a list that its API refuses.
func (w *world) inspectTraces() {
	log := w.log.String()
	for _, crash := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(log, crash) {
			w.t.Errorf("the log shows %q", crash)
		}
	}
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	traces := map[string]string{"the log": log}
	for _, suffix := range []string{"", "-wal"} {
		bytes, _ := os.ReadFile(w.database + suffix) // what is not there tells nothing
		traces["the database"] += string(bytes)
	}
	for _, m := range w.telegram.Sent() {
		traces["a chat"] += m.Text
	}
	for place, text := range traces {
		if strings.Contains(text, secret) || strings.Contains(text, apiKey) {
			w.t.Errorf("a secret stands in %s", place)
		}
	}
	if refusals := w.model.Refusals(); len(refusals) != w.refusals {
		w.t.Errorf("the model's API refused %d calls, want %d: %q", len(refusals), w.refusals, refusals)
	}
	if w.t.Failed() {
		w.t.Logf("end of the log:\n%s", tail(log, 6000))
	}
}

// say lets the person of a private chat write, and keeps what was written.
func (w *world) say(chat int, text string) telegramtest.Said {
	w.mu.Lock()
	w.said[chat] = append(w.said[chat], text)
	w.mu.Unlock()
	return w.telegram.Say(telegramtest.Private(person(chat)), person(chat), text)
}

func person(chat int) telegramtest.User {
	return telegramtest.User{ID: int64(chat), FirstName: fmt.Sprintf("Person %d", chat)}
}

// answerTo names every message that the call has to answer, so that each reply
// shows which messages it settled.
func answerTo(c llmtest.Call) llmtest.Answer {
	var open []string
	for _, m := range slices.Backward(c.Messages) {
		if m.Role != "user" {
			break
		}
		open = append(open, m.Content)
	}
	slices.Reverse(open)
	return llmtest.Answer{Text: "re " + strings.Join(open, " ")}
}

// onSend sets what happens to replies before and after the platform takes
// them; nil lets them pass.
func (w *world) onSend(before, after func(telegramtest.Message) telegramtest.Verdict) {
	w.telegram.OnSend(before, func(m telegramtest.Message) telegramtest.Verdict {
		w.mu.Lock()
		w.replies = append(w.replies, reply{int(m.Chat), m.Text, w.process})
		w.mu.Unlock()
		if after == nil {
			return telegramtest.Verdict{}
		}
		return after(m)
	})
}

// got is what a chat got, in order.
func (w *world) got(chat int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var texts []string
	for _, r := range w.replies {
		if r.chat == chat {
			texts = append(texts, r.text)
		}
	}
	return texts
}

// answered says whether a chat got a reply that names the message.
func (w *world) answered(chat int, text string) bool {
	return slices.ContainsFunc(w.got(chat), func(r string) bool { return slices.Contains(strings.Fields(r), text) })
}

func (w *world) awaitAnswer(chat int, text string) {
	w.t.Helper()
	w.await(fmt.Sprintf("the answer to %q in chat %d", text, chat), func() bool { return w.answered(chat, text) })
}

// awaitAllAnswered waits until every message of every chat is answered.
func (w *world) awaitAllAnswered() {
	w.t.Helper()
	w.mu.Lock()
	last := map[int]string{}
	for chat, texts := range w.said {
		last[chat] = texts[len(texts)-1]
	}
	w.mu.Unlock()
	for chat, text := range last {
		w.awaitAnswer(chat, text)
	}
}

// awaitConfirmed waits until the gateway has told Telegram that it has every
// message so far.
func (w *world) awaitConfirmed() {
	w.t.Helper()
	w.await("the confirmation of every update", func() bool { return w.telegram.Pending() == 0 })
}

// awaitLog waits until the log of some process holds a text.
func (w *world) awaitLog(text string) {
	w.t.Helper()
	w.await(fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(w.log.String(), text) })
}

func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// record is what a process wrote so far.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }
