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
	"syscall"
	"testing"
	"time"

	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

const loadChats = 20

// TestKilledAtRandom kills the gateway repeatedly while twenty people write. In the end each message
// is answered once. Where the platform can't prevent it, a reply may come again, but only if the kill
// came after the platform took it and before it was marked.
func TestKilledAtRandom(t *testing.T) {
	onEach(t, settings{}, killAtRandom)
}

func killAtRandom(w *world) {
	kills, seed := fromEnv(w.t, "FAULT_KILLS", w.platform.load().kills), fromEnv(w.t, "FAULT_SEED", time.Now().UnixNano())
	w.t.Logf("FAULT_KILLS=%d FAULT_SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	w.model.Quiet()
	w.answerEverybodyOnce()
	w.model.Reply(w.answerUnderLoad)
	replies := w.recordReplies()
	quiet := w.talk(rand.New(rand.NewPCG(uint64(seed), 1)))
	defer quiet()

	dueAt := map[int][]string{} // by process: the replies that were due when it was killed
	for range kills {
		p := w.startAndWait(random)
		p.Kill()
		w.awaitClosedConnections()
		dueAt[w.process] = w.dueNow()
	}
	quiet()
	p := w.startServing()
	w.awaitStored()
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

// awaitClosedConnections waits until Telegram has handled all requests of a killed process, so
// that none is taken for one of the next process. Discord needs no wait: there no reply comes again,
// so it does not matter which process sent it.
func (w *world) awaitClosedConnections() {
	w.t.Helper()
	if w.telegram == nil {
		return
	}
	// Connections are accepted in order: after this one, none of the killed process is left.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(w.telegram.URL)
	w.must(err)
	w.must(answer.Body.Close())
	gatewaytest.Await(w.t, "the end of the killed process' connections", func() bool { return w.telegram.OpenConnections() == 0 })
}

// answerEverybodyOnce answers one message of each person, so that the gateway knows the places
// in which it has to look for missed messages.
func (w *world) answerEverybodyOnce() {
	w.t.Helper()
	p := w.startServing()
	for chat := 1; chat <= loadChats; chat++ {
		w.say(chat, "hello")
	}
	w.awaitAllAnswered()
	p.Stop()
}

// answerUnderLoad answers at once, and now and then after seconds.
func (w *world) answerUnderLoad(c llmtest.Call) llmtest.Answer {
	if n := w.platform.load().slowly; n > 0 && rand.IntN(n) == 0 {
		return slowAnswer(c)
	}
	a := answerTo(c)
	a.Delay = time.Duration(rand.IntN(20)) * time.Millisecond
	return a
}

// startAndWait starts a gateway and waits for a random time: mostly from its connection on, now and
// then from its start on, so that starting gateways are killed, too.
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
			w.sayInTurn(chat, count[chat], fmt.Sprintf("c%dm%d", chat, count[chat]))
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

// recordReplies records what chats get from now on; the returned function returns it, in order.
// Previews are left out: a kill may leave one behind, if it comes before the gateway has stored which
// message the preview is.
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

// expectDoublesOnlyFrom checks the recorded replies of each chat in which a reply may come again: each
// message is named by one reply, in order, and a reply that came twice was still due, by dueAt, when
// the process that had sent it was killed.
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
	w.t.Logf("%d messages, %d replies, %d of them again after a kill between the platform's answer and the mark", w.written(), len(replies), doubles)
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

// Two gateways serve one database. One of them is killed or paused while it shows an answer. What it had under way is answered once,
// by the other one or by itself when it goes on, and no beginning of an answer stays in the chat.
func TestGatewayAnswersWhatAnotherOneHasLeft(t *testing.T) {
	t.Parallel()
	if storetest.OnPostgres() {
		t.Skip("nodes of a cluster find each other's work by themselves")
	}
	for name, end := range map[string]func(w *world, first *gatewaytest.Process, held *gate){
		"killed": func(w *world, first *gatewaytest.Process, held *gate) {
			first.Kill()
			held.Open()
			w.say(1, "m2")
		},
		"paused": func(w *world, first *gatewaytest.Process, held *gate) {
			first.Signal(syscall.SIGSTOP)
			held.Open()
			w.say(1, "m2")
			first.Signal(syscall.SIGCONT)
			first.Stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{})
			held := newGate(t)
			w.model.Quiet()
			w.model.Reply(func(c llmtest.Call) llmtest.Answer {
				a := answerTo(c)
				a.Pieces, a.HoldAt, a.Hold = len(a.Text), 2, held.opened
				return a
			})
			first := w.startServing()
			w.say(1, "m1")
			gatewaytest.Await(t, "the answer so far", func() bool { return len(w.platform.sent(1)) == 1 })
			second := w.startServing()
			end(w, first, held)
			w.awaitLog("another gateway on this database has ended")
			gatewaytest.Await(t, "an answer to each message, and nothing else", func() bool {
				shown := strings.Fields(strings.ReplaceAll(strings.Join(w.platform.sent(1), " "), "re ", ""))
				return slices.Equal(shown, []string{"m1", "m2"})
			})
			second.Stop()
			w.expectClean()
		})
	}
}
