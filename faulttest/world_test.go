package faulttest

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

const apiKey = "sk-faulttest-must-not-leak"

// world holds what goes on when a gateway is killed: the chats, the model, the disk.
type world struct {
	t        *testing.T
	platform platform
	telegram *telegramtest.Server // nil on another platform
	discord  *discord             // nil on another platform
	gw       *gatewaytest.Gateway
	model    *llmtest.Server // of gw
	refusals int             // calls that the test makes the model's API refuse

	// launch starts a subcommand; nil: as gw.Run does.
	launch func(stdin io.Reader, args ...string) *gatewaytest.Process

	mu      sync.Mutex
	process int              // number of the latest process, from 1
	said    map[int][]string // by chat, what people wrote, in order
}

// settings holds the parts of the configuration that differ between tests.
type settings struct {
	maxRuns  int                   // default 256
	drain    string                // default 1m
	budget   string                // keys of [budget], default none
	llm      string                // further keys of [llm]
	database string                // default in the test's own folder, or a database of PostgreSQL
	platform func(*world) platform // default newTelegram
}

// newWorld returns a world without a gateway. When the test ends, the logs and databases of all
// processes are searched for secrets, crashes and data races.
func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	w := &world{t: t, said: map[int][]string{}}
	if s.platform == nil {
		s.platform = newTelegram
	}
	if s.database == "" && storetest.OnPostgres() {
		s.database = postgrestest.Database(t)
	}
	w.platform = s.platform(w)
	w.gw = gatewaytest.New(t, gatewaytest.Options{Database: s.database, Config: w.config(s)})
	w.model = w.gw.Model
	w.model.RequireKey(apiKey)
	w.model.Reply(answerTo)
	w.platform.onSend(nil, nil)
	t.Cleanup(w.checkLogsAndCalls)
	return w
}

// config returns the configuration of the world's gateways.
func (w *world) config(s settings) string {
	if s.maxRuns == 0 {
		s.maxRuns = 256
	}
	if s.drain == "" {
		s.drain = "1m"
	}
	text := fmt.Sprintf(`
[log]
level = "debug"
[llm]
api_key = %q
vision = false
%s
[budget]
%s
[agent]
max_concurrent_runs = %d
drain_timeout = %q
`, apiKey, s.llm, s.budget, s.maxRuns, s.drain)
	text += w.platform.section()
	if !strings.Contains(text, "[http]") {
		text += "[http]\nlisten = \"\"\n"
	}
	return text
}

// checkLogsAndCalls fails the test if a process logged or stored a secret, or sent the model a list that
// its API refuses.
func (w *world) checkLogsAndCalls() {
	traces := map[string]string{"the log": w.gw.Log.String()}
	for _, suffix := range []string{"", "-wal"} {
		bytes, _ := os.ReadFile(w.gw.Database + suffix) // a missing file holds no secret
		traces["the database"] += string(bytes)
	}
	for chat := range w.said {
		traces["a chat"] += strings.Join(w.platform.sent(chat), "\n")
	}
	for place, text := range traces {
		for _, secret := range append(w.platform.secrets(), apiKey) {
			if strings.Contains(text, secret) {
				w.t.Errorf("%s contains a secret", place)
			}
		}
	}
	w.expectOwnMessages()
	if refusals := w.model.Refusals(); len(refusals) != w.refusals {
		w.t.Errorf("the model's API refused %d calls, want %d: %q", len(refusals), w.refusals, refusals)
	}
	if said := w.platform.complaints(); said != "" {
		w.t.Errorf("the platform complains:\n%s", said)
	}
}

// say has a person write a text, and records it.
func (w *world) say(chat int, text string) {
	w.noteSaid(chat, text)
	w.platform.say(chat, text)
}

// sayInTurn is like say for the n-th message of a chat. In Discord's groups, the people of a crowd write in turn.
func (w *world) sayInTurn(chat, n int, text string) {
	if groups, is := w.platform.(*discord); is {
		w.noteSaid(chat, text)
		groups.sayInTurn(chat, n, text)
		return
	}
	w.say(chat, text)
}

func (w *world) noteSaid(chat int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[chat] = append(w.said[chat], text)
}

// answerTo answers with the texts of all messages that the call has to answer, so that each reply shows
// which messages it settled.
func answerTo(c llmtest.Call) llmtest.Answer {
	var open []string
	for _, m := range slices.Backward(c.Messages) {
		if m.Role != "user" {
			break
		}
		_, text, group := strings.Cut(m.Content, ": ") // behind the sender's name
		if !group {
			text = m.Content
		}
		open = append(open, text)
	}
	slices.Reverse(open)
	return llmtest.Answer{Text: "re " + strings.Join(open, " ")}
}

// unfinishedMark begins an answer that is shown while it is written.
const unfinishedMark = "unfinished: "

// answered reports whether a chat got a complete reply that names the message.
func (w *world) answered(chat int, text string) bool {
	return slices.ContainsFunc(w.platform.sent(chat), func(r string) bool {
		return !strings.HasPrefix(r, unfinishedMark) && slices.Contains(strings.Fields(r), text)
	})
}

func (w *world) awaitAnswer(chat int, text string) {
	w.t.Helper()
	gatewaytest.Await(w.t, fmt.Sprintf("the answer to %q in chat %d", text, chat), func() bool { return w.answered(chat, text) })
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

// awaitStored waits until the gateway has stored every message so far. After many kills these may be
// many: it fails only when no more are stored.
func (w *world) awaitStored() {
	w.t.Helper()
	for left := w.platform.unstored(); left > 0; left = w.platform.unstored() {
		gatewaytest.Await(w.t, fmt.Sprintf("one of %d messages to be stored", left), func() bool { return w.platform.unstored() < left })
	}
}

// awaitLog waits until the log of any process contains a text.
func (w *world) awaitLog(text string) {
	w.t.Helper()
	gatewaytest.Await(w.t, fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(w.gw.Log.String(), text) })
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// written is how many messages people wrote.
func (w *world) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, texts := range w.said {
		n += len(texts)
	}
	return n
}
