package preview_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels"
	"parley/channels/preview"
)

const pace = time.Second

// shown is a platform that records the previews that it gets.
type shown struct {
	texts []string
	fails []error       // of the next calls
	takes time.Duration // for a request
}

func (s *shown) show(ctx context.Context, p *preview.Preview[int], text string) error {
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
	p.ID = "message"
	return nil
}

func (s *shown) board() *preview.Board[int] {
	return preview.NewBoard(preview.Config[int]{Every: func(int) time.Duration { return pace }, Show: s.show, Log: slog.New(slog.DiscardHandler)})
}

func anyAnswer(int) bool { return true }

func TestBoardShowsTheNewestTextAtAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := s.board()
		b.Note("place", "run", 1, "too early")
		end := b.Open()
		for _, text := range []string{"a", "ab", "abc"} {
			b.Note("place", "run", 1, text)
		}
		b.Note("place", "another run", 2, "x")
		time.Sleep(pace + time.Millisecond)
		b.Note("place", "run", 1, "abcd")
		time.Sleep(3 * pace)
		synctest.Wait()
		if _, ok := b.UnderWay("place"); !ok || !slices.Equal(s.texts, []string{"abc", "abcd"}) {
			t.Errorf("%v %q", ok, s.texts)
		}
		if p, err := b.Take(t.Context(), "place", func(to int) bool { return to > 1 }, anyAnswer); p != nil || err != nil {
			t.Errorf("the preview of another answer was taken: %v %v", p, err)
		}
		p, err := b.Take(t.Context(), "place", anyAnswer, anyAnswer)
		if err != nil || p.ID != "message" || p.To != 1 {
			t.Errorf("%+v %v", p, err)
		}
		end()
		b.Note("place", "run", 1, "too late")
		if again, err := b.Take(t.Context(), "place", anyAnswer, anyAnswer); err != nil || again != p {
			t.Errorf("the next attempt gets %+v, %v", again, err)
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
		b.Note("place", "run", 1, "busy")
		b.Hurry("place")
		synctest.Wait()
		b.Note("place", "run", 1, "busy, and more")
		time.Sleep(3 * pace / 2)
		synctest.Wait()
		if !slices.Equal(s.texts, []string{"busy", "busy, and more"}) {
			t.Errorf("%q", s.texts)
		}
	})
}

// The preview of the next run is shown after the earlier reply was sent. The preview of the answer
// that this reply contains is not shown any more.
func TestBoardShowsTheNextAnswerAfterTheReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, ends := range map[string]bool{"a later run": false, "a run that is over": true} {
			s := &shown{}
			b := s.board()
			end := b.Open()
			b.Note("place", "first", 1, "one")
			time.Sleep(2 * pace)
			b.Note("place", "second", 2, "tw")
			p, err := b.Take(t.Context(), "place", anyAnswer, func(to int) bool { return ends && to == 2 })
			if err != nil || p.To != 1 {
				t.Errorf("%s: %+v %v", name, p, err)
			}
			if !ends {
				b.Note("place", "second", 2, "two")
			}
			time.Sleep(2 * pace)
			if _, ok := b.UnderWay("place"); ok || !slices.Equal(s.texts, []string{"one"}) {
				t.Errorf("%s: shown while the reply is sent: %q", name, s.texts)
			}
			b.Done(p)
			time.Sleep(2 * pace)
			synctest.Wait()
			want := []string{"one", "two"}
			if ends {
				want = want[:1]
			}
			if to, ok := b.UnderWay("place"); ok == ends || !ends && to != 2 || !slices.Equal(s.texts, want) {
				t.Errorf("%s: shown %q", name, s.texts)
			}
			end()
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
		b.Note("place", "run", 1, "a")
		time.Sleep(pace + time.Millisecond)
		p, err := b.Take(t.Context(), "place", anyAnswer, anyAnswer)
		if err != nil {
			t.Fatal(err)
		}
		b.Note("place", "run", 1, "ab")
		b.End(p)
		b.Note("place", "run", 1, "abc")
		time.Sleep(2 * pace)
		b.Note("place", "next", 2, "x")
		time.Sleep(2 * pace)
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
		b.Note("place", "run", 1, "half")
		time.Sleep(2 * pace)
		if p, err := b.Take(t.Context(), "place", anyAnswer, anyAnswer); err != nil || p.ID != "message" || len(s.texts) != 1 {
			t.Errorf("taken as %+v, shown %q, %v", p, s.texts, err)
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
				b.Note("place", "run", 1, "text")
				time.Sleep(10 * time.Second)
			}
			synctest.Wait()
			if len(s.texts) != test.want {
				t.Errorf("%s: shown %d times, want %d", name, len(s.texts), test.want)
			}
			time.Sleep(time.Hour) // the run is dead
			if _, ok := b.UnderWay("place"); ok {
				t.Errorf("%s: the preview stays for ever", name)
			}
			end()
		}
	})
}
