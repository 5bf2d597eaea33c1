package conversation_test

import (
	"context"
	"fmt"
	"iter"
	"time"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
	"parley/conversation/retention"
	"parley/conversation/search"
	"parley/conversation/storetest"
	"parley/conversation/summary"
	"parley/conversation/transcript"
	"parley/conversation/usage"
)

// init gives the tests of package conversation the subjects that import it.
func init() {
	conversation.AskPairing = func(ctx context.Context, s *conversation.Store, of conversation.Account, user string) (string, error) {
		p, _, err := pairing.New(s).Ask(ctx, of, user, "Name of "+user)
		return p.Code, err
	}
	conversation.ApprovePairing = func(ctx context.Context, s *conversation.Store, code string) error {
		_, err := pairing.New(s).Approve(ctx, code)
		return err
	}
	conversation.IsPaired = func(ctx context.Context, s *conversation.Store, of conversation.Account, user string) (bool, error) {
		return pairing.New(s).Has(ctx, of, user)
	}
	queues := func(list []bots.Queue) (same []conversation.Queue) {
		for _, q := range list {
			same = append(same, conversation.Queue(q))
		}
		return same
	}
	conversation.Queues = func(ctx context.Context, s *conversation.Store) ([]conversation.Queue, error) {
		list, err := bots.New(s).Queues(ctx)
		return queues(list), err
	}
	conversation.SetServing = func(ctx context.Context, s *conversation.Store, bot conversation.Account) error {
		return bots.New(s).SetHealth(ctx, bot, bots.Serving, "")
	}
	conversation.BeginService = func(ctx context.Context, s *conversation.Store, bot conversation.Account) (string, []conversation.Queue, error) {
		found, err := bots.New(s).Begin(ctx, bot)
		return found.Former, queues(found.Left), err
	}
	conversation.Find = func(ctx context.Context, s *conversation.Store, key conversation.Key, words string, limit int) (list []conversation.Found, err error) {
		hits, err := search.New(s).Find(ctx, search.Query{Key: key, Words: words, Limit: limit})
		for _, h := range hits {
			list = append(list, conversation.Found{Seq: h.Seq, Turn: h.Turn, Text: h.Snippet.Mark("[", "]")})
		}
		return list, err
	}
	conversation.ReadTurns = func(ctx context.Context, s *conversation.Store, key conversation.Key, id string, first, last int64) (list []string, err error) {
		turns, err := search.New(s).Turns(ctx, key, id, first, last)
		for _, turn := range turns {
			list = append(list, fmt.Sprint(turn.Number, storetest.Texts(turn.Messages)))
		}
		return list, err
	}
	conversation.ReadToolUses = func(ctx context.Context, s *conversation.Store, key conversation.Key, id, tool string, limit int) (list []string, err error) {
		uses, err := search.New(s).ToolUses(ctx, key, id, search.ToolQuery{Tool: tool, Limit: limit})
		for _, u := range uses {
			list = append(list, fmt.Sprint(u.Turn, u.Call, u.Result.Content))
		}
		return list, err
	}
	conversation.ReadOverview = func(ctx context.Context, s *conversation.Store, key conversation.Key, id string, limit int) (list []string, err error) {
		o, err := search.New(s).Overview(ctx, key, id, limit)
		list = append(list, fmt.Sprint(o.Turns, " turns, ", o.Summary.Content))
		for _, turn := range o.Openings {
			list = append(list, fmt.Sprint(turn.Number, storetest.Texts(turn.Messages)))
		}
		return list, err
	}
	conversation.ReadStretch = func(ctx context.Context, s *conversation.Store, id string, before int64, tokens int) ([]conversation.Message, error) {
		stretch, err := summary.New(s).Stretch(ctx, id, before, tokens)
		return stretch.Messages, err
	}
	conversation.Summarize = func(ctx context.Context, s *conversation.Store, id string, before int64, tokens int, content string, size int) (bool, error) {
		stretch, err := summary.New(s).Stretch(ctx, id, before, tokens)
		if err != nil {
			return false, err
		}
		return summary.New(s).Add(ctx, stretch, content, size)
	}
	conversation.RunsByChannel = func(ctx context.Context, s *conversation.Store) (map[string]int64, error) {
		stats, err := usage.New(s).Stats(ctx, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Hour)
		runs := map[string]int64{}
		for _, u := range stats.Models {
			runs[u.Channel] = u.Runs
		}
		return runs, err
	}
	conversation.ReadTranscript = func(ctx context.Context, s *conversation.Store, t conversation.Transcript) (conversation.Conversation, string, iter.Seq2[conversation.Message, error], error) {
		return transcript.Read(ctx, s, t)
	}
	conversation.Newest = transcript.Newest
	conversation.NewCleaner = func(s *conversation.Store) func(ctx context.Context, expiration, keep time.Duration) error {
		r := retention.New(s)
		return func(ctx context.Context, expiration, keep time.Duration) error {
			_, err := r.Clean(ctx, retention.Rules{Expiration: expiration, Retention: keep}, func(retention.Outdated) {})
			return err
		}
	}
}
