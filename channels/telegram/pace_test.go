package telegram

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// sendFor returns how many messages to a chat pass within d.
func sendFor(p *pacer, chat int64, d time.Duration) int {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	n := 0
	for p.wait(ctx, chat) == nil {
		n++
	}
	return n
}

func TestPaceOfAChat(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sendRate, chatRate float64
		chat               int64
		least, most        int // in a minute
	}{
		"private, by default": {30, 1, 42, 60, 61},
		"group, by default":   {30, 1, -42, 19, 20},
		"group, as set":       {30, 2, -42, 119, 121},
		"all":                 {5, 0, 42, 299, 301},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if n := sendFor(newPacer(tt.sendRate, tt.chatRate), tt.chat, time.Minute); n < tt.least || n > tt.most {
					t.Fatalf("%d messages in a minute", n)
				}
			})
		})
	}
}

func TestWaitingChatSlowsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(10, 0)
		p.block(1, time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		for range 100 {
			go p.wait(ctx, 1)
		}
		synctest.Wait()
		if n := sendFor(p, 2, time.Second); n < 10 {
			t.Fatalf("the other chat sent %d messages in a second", n)
		}
		cancel()
	})
}

func TestRateLimitedChatWaitsAsLongAsTelegramAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 0)
		p.block(1, 7*time.Second)
		p.block(1, time.Second) // a shorter one changes nothing
		began := time.Now()
		if err := p.wait(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 7*time.Second {
			t.Fatalf("waited %s", waited)
		}
	})
}

func TestIdleChatsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 1)
		for chat := range int64(10_000) {
			if err := p.wait(context.Background(), chat+1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(p.chats); n > 2*minSweep {
			t.Fatalf("%d chats are remembered, of which about 100 can matter", n)
		}
	})
}
