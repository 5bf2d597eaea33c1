package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/llm/llmtest"
)

// fakes are the two servers, and the people who talk through one of them.
type fakes struct {
	telegram *telegramtest.Server
	model    *llmtest.Server
	modelURL string // URL of the model that gateways ask

	mu    sync.Mutex
	talks map[int64]*talk
}

func startFakes() (*fakes, error) {
	telegram, err := telegramtest.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	model, err := llmtest.Start("127.0.0.1:0")
	if err != nil {
		telegram.Close()
		return nil, err
	}
	model.Quiet()
	f := &fakes{telegram: telegram, model: model, modelURL: model.URL(), talks: map[int64]*talk{}}
	telegram.OnSend(nil, func(m telegramtest.Message) telegramtest.Verdict {
		f.hear(m)
		return telegramtest.Verdict{}
	})
	telegram.OnEdit(f.hear)
	return f, nil
}

func (f *fakes) close() {
	f.telegram.Close()
	f.model.Close()
}

// hear is called when the bot's message, or an edit of it, is in the chat, before the bot knows. A part of an answer
// is shown when the machine is slow.
func (f *fakes) hear(m telegramtest.Message) {
	if !strings.HasSuffix(m.Text, previewMark) {
		f.talk(m.Chat).heard <- m.Text
	}
}

// previewMark is the end of a message that shows an answer while it is written.
const previewMark = " …"

// answerTimeout is when an answer counts as missing.
const answerTimeout = 60 * time.Second

// talk is what is said in one private chat.
type talk struct {
	telegram *telegramtest.Server
	person   telegramtest.User
	said     int
	heard    chan string
}

func (f *fakes) talk(chat int64) *talk {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.talks[chat]
	if t == nil {
		t = &talk{
			telegram: f.telegram,
			person:   telegramtest.User{ID: chat, FirstName: fmt.Sprintf("Person %d", chat)},
			heard:    make(chan string, 16),
		}
		f.talks[chat] = t
	}
	return t
}

// key returns the key of the chat's session.
func key(chat int64) conversation.Key {
	return conversation.Key(fmt.Sprintf("telegram:chat:%d", chat))
}

// ask sends the next message and waits for its answer, which must be that of this
// message and no other.
func (t *talk) ask(ctx context.Context) (time.Duration, error) {
	t.said++
	text := fmt.Sprintf("This is message %d of chat %d.", t.said, t.person.ID)
	return t.askFor(ctx, text, "echo: "+text)
}

// askFor sends a message and waits for the answer that it must get.
func (t *talk) askFor(ctx context.Context, text, want string) (time.Duration, error) {
	began := time.Now()
	t.telegram.Say(telegramtest.Private(t.person), t.person, text)
	timeout := time.NewTimer(answerTimeout)
	defer timeout.Stop()
	select {
	case got := <-t.heard:
		if got != want {
			return 0, fmt.Errorf("chat %d got the answer %q to %q instead of %q", t.person.ID, got, text, want)
		}
		return time.Since(began), nil
	case <-timeout.C:
		return 0, fmt.Errorf("chat %d got no answer to %q within %s", t.person.ID, text, answerTimeout)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// ask asks n times in each of the chats 1 to the given, in all of them at once.
func (f *fakes) ask(ctx context.Context, chats, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	for chat := range chats {
		t := f.talk(int64(chat + 1))
		g.Go(func() error {
			for range n {
				if _, err := t.ask(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// silence returns an error if an answer came that nobody waited for.
func (f *fakes) silence() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for chat, t := range f.talks {
		if len(t.heard) > 0 {
			return fmt.Errorf("chat %d got one answer too many: %q", chat, <-t.heard)
		}
	}
	return nil
}
