package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/internal/waittest"
)

// programs is a platform on which programs send messages over HTTP. Nobody writes in its chats.
type programs struct {
	telegram
	listen string // where every gateway of the test listens
}

func newPrograms(w *world) platform {
	w.telegram = telegramtest.New(w.t)
	return programs{telegram{w.telegram, "0s"}, gatewaytest.Address(w.t)}
}

func (p programs) section() string {
	return p.telegram.section() + fmt.Sprintf("[http]\nlisten = %q\nauth = \"none\"\n", p.listen)
}

// programAnswer is the answer to a request of a program.
type programAnswer struct {
	Status, Reply string
	Run           int64
}

// post repeats a request until it is answered, like a program that does not know whether the gateway
// got it.
func (p programs) post(ctx context.Context, session, id, text string) (a programAnswer, err error) {
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*waittest.Patience)
	defer cancel()
	for ctx.Err() == nil {
		address := "http://" + p.listen + "/api/v1/sessions/" + session + "/messages"
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(string(body)))
		if err != nil {
			return a, err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", id)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&a)
			answer.Body.Close()
			switch {
			case err == nil && answer.StatusCode == http.StatusOK:
				return a, nil
			case answer.StatusCode != http.StatusServiceUnavailable && answer.StatusCode != http.StatusOK:
				return a, fmt.Errorf("%s in %s is answered %s", id, session, answer.Status)
			}
		}
		time.Sleep(10 * time.Millisecond) // the gateway is gone
	}
	return a, ctx.Err()
}

// TestAcceptedRequestIsAnsweredOnceAfterAKill kills the gateway while the model
// answers a request, and repeats the request: it is answered once.
func TestAcceptedRequestIsAnsweredOnceAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newPrograms})
	api := w.platform.(programs)
	held := w.holdModel("m1")
	p := w.startServing()
	answers := make(chan programAnswer)
	go func() {
		a, err := api.post(t.Context(), "api:task", "key-1", "m1")
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	w.awaitReached("the model call", held)
	p.Kill()
	w.expectState(w.copyDatabase(), 1, 0, 0)
	held.Open()
	p = w.startServing()
	first := <-answers
	again, err := api.post(t.Context(), "api:task", "key-1", "m1")
	if err != nil || first.Status != "done" || first.Reply != "re m1" || again != first {
		t.Errorf("the answers are %+v and %+v, %v", first, again, err)
	}
	if n := w.count(`SELECT count(*) FROM messages WHERE role = 'user'`); n != 1 {
		t.Errorf("the message is stored %d times", n)
	}
	p.Stop()
	w.expectClean()
}

// TestRequestsOfProgramsAreAnsweredOnceAcrossKills kills the gateway repeatedly while
// programs send requests and repeat them until they are answered: each message is stored once, and
// has one answer.
func TestRequestsOfProgramsAreAnsweredOnceAcrossKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newPrograms})
	api := w.platform.(programs)
	w.model.Quiet()
	const sessions, each, kills = 8, 12, 8
	var talking sync.WaitGroup
	for s := range sessions {
		talking.Go(func() {
			for i := range each {
				id := fmt.Sprintf("s%dm%d", s, i)
				a, err := api.post(t.Context(), fmt.Sprint("api:task-", s), id, id)
				if err != nil || !slices.Contains(strings.Fields(a.Reply), id) {
					t.Errorf("%s is answered %+v, %v", id, a, err)
					return
				}
			}
		})
	}
	for range kills {
		p := w.startServing()
		p.KillWithin(300 * time.Millisecond)
	}
	p := w.startServing()
	talking.Wait()
	for s := range sessions {
		in := fmt.Sprintf(`FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
			WHERE m.role = 'user' AND s.key = 'api:task-%d'`, s)
		if all, distinct := w.count(`SELECT count(*) `+in), w.count(`SELECT count(DISTINCT m.content) `+in); all != each || distinct != each {
			t.Errorf("session %d holds %d messages, %d of them different, want %d", s, all, distinct, each)
		}
	}
	p.Stop()
	w.expectClean()
}
