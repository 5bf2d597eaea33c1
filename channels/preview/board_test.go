package preview_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels"
	"parley/channels/preview"
	"parley/conversation"
)

const pace = time.Second

// shown is a platform that records the previews that it gets.
type shown struct {
	texts []string
	fails []error       // of the next calls
	takes time.Duration // for a request

	removed []string // IDs of messages
}

func (s *shown) request(ctx context.Context, text string) error {
	ctx, cancel := preview.Request(ctx)
	defer cancel()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.texts = append(s.texts, text)
	if len(s.fails) > 0 {
		err := s.fails[0]
		s.fails = s.fails[1:]
		return err
	}
	return nil
}

func (s *shown) board() *preview.Board[int] {
	return preview.NewBoard(preview.Config[int]{
		Every: func(int) time.Duration { return pace },
		Post: func(ctx context.Context, p *preview.Preview[int], text string) (string, error) {
			if err := s.request(ctx, text); err != nil {
				return "", err
			}
			return fmt.Sprint("message ", p.Run), nil
		},
		Edit: func(ctx context.Context, _ int, _, text string) error { return s.request(ctx, text) },
		Remove: func(_ context.Context, _ int, id string) error {
			s.removed = append(s.removed, id)
			return nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
}

// reply is a delivery of a run.
func reply(run int64) conversation.Delivery { return conversation.Delivery{RunID: run} }

func TestBoardShowsTheNewestTextAtAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := s.board()
		b.Note("place", "a", 1, 1, "too early")
		end := b.Open()
		for _, text := range []string{"a", "ab", "abc"} {
			b.Note("place", "a", 1, 1, text)
		}
		b.Note("place", "b", 2, 2, "x")
		time.Sleep(pace + time.Millisecond)
		synctest.Wait()
		b.Note("place", "a", 1, 1, "abcd")
		time.Sleep(3 * pace)
		synctest.Wait()
		if _, _, ok := b.UnderWay("place"); !ok || !slices.Equal(s.texts, []string{"abc", "abcd"}) {
			t.Errorf("%v %q", ok, s.texts)
		}
		if id, _, err := b.Take(t.Context(), "place", reply(2)); id != "" || err != nil {
			t.Errorf("the preview of another answer was taken: %q %v", id, err)
		}
		id, stale, err := b.Take(t.Context(), "place", reply(1))
		if err != nil || id != "message 1" || stale != "" {
			t.Errorf("%q %q %v", id, stale, err)
		}
		end()
		b.Note("place", "a", 1, 1, "too late")
		if again, _, err := b.Take(t.Context(), "place", reply(1)); err != nil || again != id {
			t.Errorf("the next attempt gets %q, %v", again, err)
		}
	})
}

// A notice that can't wait, such as that the model is busy, is shown at once. The pace applies again
// after it.
func TestHurryShowsTheNewestTextAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := s.board()
		end := b.Open()
		defer end()
		b.Hurry("place") // there is no preview
		b.Note("place", "a", 1, 1, "busy")
		b.Hurry("place")
		synctest.Wait()
		b.Note("place", "a", 1, 1, "busy, and more")
		time.Sleep(3 * pace / 2)
		synctest.Wait()
		if !slices.Equal(s.texts, []string{"busy", "busy, and more"}) {
			t.Errorf("%q", s.texts)
		}
	})
}

// The preview of another session is shown after the reply was sent. What the run of the reply still writes is not shown any more.
func TestBoardShowsTheNextAnswerAfterTheReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, next := range map[string]int64{"another run": 2, "the run of the reply": 1} {
			s := &shown{}
			b := s.board()
			end := b.Open()
			b.Note("place", "a", 1, 1, "one")
			time.Sleep(2 * pace)
			synctest.Wait()
			if next != 1 {
				b.Note("place", "b", next, 2, "tw")
			}
			if id, _, err := b.Take(t.Context(), "place", reply(1)); err != nil || id != "message 1" {
				t.Errorf("%s: %q %v", name, id, err)
			}
			if next != 1 {
				b.Note("place", "b", next, 2, "two")
			}
			time.Sleep(2 * pace)
			synctest.Wait()
			if _, _, ok := b.UnderWay("place"); ok || !slices.Equal(s.texts, []string{"one"}) {
				t.Errorf("%s: shown while the reply is sent: %q", name, s.texts)
			}
			b.Done("place", 1)
			time.Sleep(2 * pace)
			synctest.Wait()
			want := []string{"one", "two"}
			if next == 1 {
				want = want[:1]
			}
			if to, _, ok := b.UnderWay("place"); ok != (next != 1) || ok && to != 2 || !slices.Equal(s.texts, want) || len(s.removed) > 0 {
				t.Errorf("%s: shown %q, removed %q", name, s.texts, s.removed)
			}
			end()
		}
	})
}

// The next run of a session begins when another process has sent the reply of the earlier one, which removes the message of that run.
func TestBoardShowsTheNextRunOfASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := s.board()
		defer b.Open()()
		b.Note("place", "a", 1, 1, "one")
		time.Sleep(2 * pace)
		synctest.Wait()
		b.Note("place", "a", 2, 1, "two")
		time.Sleep(2 * pace)
		synctest.Wait()
		if id, stale, err := b.Take(t.Context(), "place", conversation.Delivery{RunID: 1, Preview: "message 1"}); id != "" || stale != "message 1" || err != nil {
			t.Errorf("the reply of the first run replaces %q, and removes %q: %v", id, stale, err)
		}
		if id, _, err := b.Take(t.Context(), "place", reply(2)); id != "message 2" || err != nil {
			t.Errorf("the second reply replaces %q: %v", id, err)
		}
	})
}

// A message of which an edit got no answer is not turned into the reply: the edit may still be carried out.
func TestReplyDoesNotReplaceAMessageWithAnEditUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := s.board()
		defer b.Open()()
		b.Note("place", "a", 1, 1, "one")
		time.Sleep(2 * pace)
		synctest.Wait()
		s.fails = []error{errors.New("no answer")}
		b.Note("place", "a", 1, 1, "one two")
		time.Sleep(2 * pace)
		synctest.Wait()
		if id, stale, err := b.Take(t.Context(), "place", reply(1)); id != "" || stale != "message 1" || err != nil {
			t.Errorf("the reply replaces %q, and removes %q: %v", id, stale, err)
		}
	})
}

// Nothing more is shown of an answer that has ended without a reply, whatever its run still writes. The next one is shown.
func TestBoardShowsNothingMoreOfAnEndedAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := s.board()
		end := b.Open()
		b.Note("place", "a", 1, 1, "a")
		time.Sleep(pace + time.Millisecond)
		synctest.Wait()
		if _, _, err := b.Take(t.Context(), "place", reply(1)); err != nil {
			t.Fatal(err)
		}
		b.Note("place", "a", 1, 1, "ab")
		b.End("place", 1)
		b.Note("place", "a", 1, 1, "abc")
		time.Sleep(2 * pace)
		synctest.Wait()
		b.Note("place", "a", 2, 2, "x")
		time.Sleep(2 * pace)
		synctest.Wait()
		end()
		if !slices.Equal(s.texts, []string{"a", "x"}) {
			t.Errorf("shown: %q", s.texts)
		}
	})
}

func TestBoardWaitsForARequestBeforeTheReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{takes: 10 * time.Second}
		b := s.board()
		defer b.Open()()
		b.Note("place", "a", 1, 1, "half")
		time.Sleep(2 * pace)
		synctest.Wait()
		if id, _, err := b.Take(t.Context(), "place", reply(1)); err != nil || id != "message 1" || len(s.texts) != 1 {
			t.Errorf("taken as %q, shown %q, %v", id, s.texts, err)
		}
	})
}

func TestBoardGivesUpRefusedPreviewsAndThoseOfDeadRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			fails []error
			want  int // calls within a minute
		}{
			"refused for good":  {[]error{&channels.SendError{Permanent: true, Err: errors.New("gone")}}, 1},
			"told to wait":      {[]error{&channels.SendError{RetryAfter: 50 * time.Second, Err: errors.New("slow down")}}, 2},
			"a network failure": {[]error{errors.New("reset")}, 6},
		} {
			s := &shown{fails: test.fails}
			b := s.board()
			end := b.Open()
			for range 6 {
				b.Note("place", "a", 1, 1, "text")
				time.Sleep(10 * time.Second)
				synctest.Wait()
			}
			synctest.Wait()
			if len(s.texts) != test.want {
				t.Errorf("%s: shown %d times, want %d", name, len(s.texts), test.want)
			}
			time.Sleep(time.Hour) // the run is dead
			synctest.Wait()
			if _, _, ok := b.UnderWay("place"); ok {
				t.Errorf("%s: the preview stays for ever", name)
			}
			end()
		}
	})
}
