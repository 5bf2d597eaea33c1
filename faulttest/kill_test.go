package faulttest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

const loadChats = 20

// TestKilledAtRandom kills the gateway again and again while twenty people
// write, and expects that in the end each message is answered once. Where the
// platform can't prevent it, a reply may come again, but only if the kill found
// it taken and not yet marked.
func TestKilledAtRandom(t *testing.T) {
	onEach(t, settings{}, killAtRandom)
}

func killAtRandom(w *world) {
	kills, seed := fromEnv(w.t, "FAULT_KILLS", w.platform.load().kills), fromEnv(w.t, "FAULT_SEED", time.Now().UnixNano())
	w.t.Logf("FAULT_KILLS=%d FAULT_SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	w.model.Quiet()
	w.meetEverybody()
	w.model.Reply(w.answerUnderLoad)
	replies := w.recordReplies()
	quiet := w.talk(rand.New(rand.NewPCG(uint64(seed), 1)))
	defer quiet()

	dueAt := map[int][]string{} // by process: the replies that its kill left to be sent
	for range kills {
		p := w.startAndWait(random)
		p.Kill()
		w.awaitHungUp()
		dueAt[w.process] = w.dueNow()
	}
	quiet()
	p := w.startServing()
	w.awaitTaken()
	w.awaitAllAnswered()
	p.Stop()

	w.expectClean()
	w.expectDoublesOnlyFrom(dueAt, replies())
	for chat := range w.said {
		if !w.platform.repeats(chat) {
			w.expectEachAnsweredOnce(chat)
		}
	}
}

// awaitHungUp waits until Telegram has handled all that a killed process sent, so
// that nothing of it is taken for the next one's. On Discord nothing comes again,
// and nobody asks which process sent it.
func (w *world) awaitHungUp() {
	w.t.Helper()
	if w.telegram == nil {
		return
	}
	// Connections are accepted in their order: behind this one, none is left of those.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(w.telegram.URL)
	w.must(err)
	w.must(answer.Body.Close())
	gatewaytest.Await(w.t, "the end of the killed process' connections", func() bool { return w.telegram.OpenConnections() == 0 })
}

// meetEverybody lets each person be answered once, so that the gateway knows
// where it has to look for what it missed.
func (w *world) meetEverybody() {
	w.t.Helper()
	p := w.startServing()
	for chat := 1; chat <= loadChats; chat++ {
		w.say(chat, "hello")
	}
	w.awaitAllAnswered()
	p.Stop()
}

// answerUnderLoad takes a moment, or, now and then, seconds.
func (w *world) answerUnderLoad(c llmtest.Call) llmtest.Answer {
	if n := w.platform.load().slowly; n > 0 && rand.IntN(n) == 0 {
		return slowly(c)
	}
	a := answerTo(c)
	a.Delay = time.Duration(rand.IntN(20)) * time.Millisecond
	return a
}

// startAndWait lets the gateway live for a random moment: mostly counted from
// its connection, now and then from its birth, so that starts are killed too.
func (w *world) startAndWait(random *rand.Rand) *gatewaytest.Process {
	w.t.Helper()
	var p *gatewaytest.Process
	if random.IntN(5) == 0 {
		p = w.start()
	} else {
		p = w.startServing()
	}
	time.Sleep(time.Duration(random.Int64N(int64(w.platform.load().life))))
	if p.HasEnded() {
		w.t.Fatalf("the gateway ended by itself: %s", p.Stderr)
	}
	return p
}

// talk lets people write numbered messages in random chats until the returned
// function is called.
func (w *world) talk(random *rand.Rand) (quiet func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var count [loadChats + 1]int
		for {
			chat := 1 + random.IntN(loadChats)
			count[chat]++
			w.say(chat, fmt.Sprintf("c%dm%d", chat, count[chat]))
			select {
			case <-end:
				return
			case <-time.After(time.Duration(random.Int64N(int64(w.platform.load().pace)))):
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// reply is a message that a chat got.
type reply struct {
	chat    int
	text    string
	process int // which was alive
}

// telegramPreview ends an answer that Telegram shows while it is written.
const telegramPreview = " …"

// recordReplies keeps what chats get from now on; the returned function gives
// it, in order. An answer that is shown while it is written is no reply: a kill may
// leave one behind, if it comes before the gateway has stored which message it is.
func (w *world) recordReplies() func() []reply {
	var list []reply
	w.platform.onSend(nil, func(chat int, text string) verdict {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !strings.HasSuffix(text, telegramPreview) {
			list = append(list, reply{chat, text, w.process})
		}
		return answered
	})
	return func() []reply {
		w.mu.Lock()
		defer w.mu.Unlock()
		return list
	}
}

// expectDoublesOnlyFrom checks what every chat got since it was met in which a
// reply may come again: each message is named by one reply, in order, and a reply
// that came twice was left unmarked by the kill of the process that had sent it.
func (w *world) expectDoublesOnlyFrom(dueAt map[int][]string, replies []reply) {
	w.t.Helper()
	type sent struct {
		chat int
		text string
	}
	last := map[sent]int{} // process that sent it last
	named := map[int][]string{}
	doubles := 0
	for _, r := range replies {
		if !w.platform.repeats(r.chat) {
			continue
		}
		key := sent{r.chat, r.text}
		before, double := last[key]
		last[key] = r.process
		if !double {
			named[r.chat] = append(named[r.chat], strings.Fields(r.text)[1:]...)
			continue
		}
		doubles++
		due := w.platform.key(r.chat) + " " + r.text
		if before == r.process || !slices.Contains(dueAt[before], due) {
			w.t.Errorf("chat %d got %q from process %d and again from %d, although it was marked as sent", r.chat, r.text, before, r.process)
		}
	}
	for chat, texts := range w.said {
		if w.platform.repeats(chat) {
			w.expectNamed(chat, append([]string{"hello"}, named[chat]...), texts)
		}
	}
	w.t.Logf("%d messages, %d replies, %d of them again after a kill between the platform's taking and the mark", w.written(), len(replies), doubles)
}

func fromEnv(t *testing.T, name string, byDefault int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
