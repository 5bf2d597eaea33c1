package faulttest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/llm/llmtest"
)

const (
	loadChats  = 20
	maxPending = 60 // updates that people leave unread at most
)

// TestKilledAtRandom kills the gateway again and again while twenty people
// write, and expects that in the end each message is answered once; a reply
// may come again only if the kill found it taken and not yet marked.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	kills, seed := fromEnv(t, "FAULT_KILLS", 50), fromEnv(t, "FAULT_SEED", time.Now().UnixNano())
	t.Logf("FAULT_KILLS=%d FAULT_SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	w := newWorld(t, settings{})
	w.model.Quiet()
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		a := answerTo(c)
		a.Delay = time.Duration(rand.IntN(20)) * time.Millisecond
		return a
	})
	quiet := w.talk(rand.New(rand.NewPCG(uint64(seed), 1)))
	defer quiet()

	dueAt := make([][]string, kills+1) // by process: the replies that its kill left to be sent
	for n := range kills {
		p := w.startAndWait(random)
		p.kill()
		dueAt[n+1] = w.due(w.copyDatabase())
	}
	quiet()
	p := w.startPolling()
	w.awaitConfirmed()
	w.awaitAllAnswered()
	p.stop()

	w.expectClean()
	w.expectDoublesOnlyFrom(dueAt)
}

// startAndWait lets the gateway live for a random moment: mostly counted from
// its first poll, now and then from its birth, so that starts are killed too.
func (w *world) startAndWait(random *rand.Rand) *process {
	w.t.Helper()
	var p *process
	if random.IntN(5) == 0 {
		p = w.start()
	} else {
		p = w.startPolling()
	}
	time.Sleep(time.Duration(random.IntN(500_000)) * time.Microsecond)
	if p.hasEnded() {
		w.t.Fatalf("the gateway ended by itself: %s", p.cmd.ProcessState)
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
			if w.telegram.Pending() < maxPending {
				count[chat]++
				w.say(chat, fmt.Sprintf("c%dm%d", chat, count[chat]))
			}
			select {
			case <-end:
				return
			case <-time.After(time.Duration(random.IntN(6)) * time.Millisecond):
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// expectDoublesOnlyFrom checks every chat's replies: each message is named by
// one reply, in order, and a reply that came twice was left unmarked by the
// kill of the process that had sent it.
func (w *world) expectDoublesOnlyFrom(dueAt [][]string) {
	w.t.Helper()
	type sent struct {
		chat int
		text string
	}
	last := map[sent]int{} // process that sent it last
	named := map[int][]string{}
	doubles := 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replies {
		key := sent{r.chat, r.text}
		before, double := last[key]
		last[key] = r.process
		if !double {
			named[r.chat] = append(named[r.chat], strings.Fields(r.text)[1:]...)
			continue
		}
		doubles++
		due := sessionKey(r.chat) + " " + r.text
		if before == r.process || !slices.Contains(dueAt[before], due) {
			w.t.Errorf("chat %d got %q from process %d and again from %d, although it was marked as sent", r.chat, r.text, before, r.process)
		}
	}
	for chat, texts := range w.said {
		if !slices.Equal(named[chat], texts) {
			w.t.Errorf("chat %d: the replies name %d messages, and %d were written; they differ from number %d on",
				chat, len(named[chat]), len(texts), differFrom(named[chat], texts)+1)
		}
	}
	w.t.Logf("%d messages, %d replies, %d of them again after a kill between the platform's taking and the mark", w.written(), len(w.replies), doubles)
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

// written is how many messages people wrote.
func (w *world) written() int {
	n := 0
	for _, texts := range w.said {
		n += len(texts)
	}
	return n
}
