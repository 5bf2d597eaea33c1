package faulttest

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// TestOutageOfTheModelLeavesNoDebts has people write in many chats while the model answers 503, and kills the gateway in the midst. When
// the model is back, everybody is answered without /retry, and every chat was told once. PARLEY_OUTAGE=CHATSxMESSAGES runs it larger.
func TestOutageOfTheModelLeavesNoDebts(t *testing.T) {
	t.Parallel()
	chats, each := 12, 4
	if size := os.Getenv("PARLEY_OUTAGE"); size != "" {
		if _, err := fmt.Sscanf(size, "%dx%d", &chats, &each); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, settings{})
	var works atomic.Bool
	var atOnce, most, refused atomic.Int64
	w.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if !works.Load() {
			refused.Add(1)
			return llmtest.Answer{Status: http.StatusServiceUnavailable}
		}
		for n := atOnce.Add(1); ; {
			if seen := most.Load(); n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		defer atOnce.Add(-1)
		return answerTo(c)
	})
	p := w.startServing()
	for n := range each {
		for chat := 1; chat <= chats; chat++ {
			w.say(chat, fmt.Sprintf("message %d of chat %d", n, chat))
		}
		if n == each/2 {
			p.Kill()
			p = w.startServing()
		}
	}
	defer func() { p.Stop() }()
	notices := func(chat int) (n int) {
		for _, text := range w.platform.sent(chat) {
			if strings.Contains(text, "I will answer when it is back.") {
				n++
			}
		}
		return n
	}
	for chat := 1; chat <= chats; chat++ {
		gatewaytest.Await(t, fmt.Sprintf("chat %d to be told", chat), func() bool { return notices(chat) > 0 })
	}
	t.Logf("%d calls failed in the outage", refused.Load())
	back := time.Now()
	works.Store(true)
	for chat := 1; chat <= chats; chat++ {
		last := fmt.Sprintf("message %d of chat %d", each-1, chat)
		gatewaytest.Await(t, fmt.Sprintf("the answer to %q", last), func() bool {
			for _, text := range w.platform.sent(chat) {
				if !strings.Contains(text, "when it is back") && strings.Contains(text, last) {
					return true
				}
			}
			return false
		})
	}
	t.Logf("all answered %v after the recovery, %d calls at once at most, %d calls in all", time.Since(back).Round(time.Millisecond), most.Load(), w.model.Served())
	for chat := 1; chat <= chats; chat++ {
		if n := notices(chat); n != 1 {
			t.Errorf("chat %d was told %d times: %q", chat, n, w.platform.sent(chat))
		}
		if sent := strings.Join(w.platform.sent(chat), "\n"); strings.Contains(sent, "/retry") {
			t.Errorf("chat %d has a debt: %s", chat, sent)
		}
	}
	if log := w.gw.Log.String(); strings.Count(log, "level=WARN")+strings.Count(log, `"level":"WARN"`) > 20 {
		t.Errorf("the log has %d warnings", strings.Count(log, "WARN"))
	}
}
