package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/steps"
	"parley/conversation/summary"
	"parley/llm"
	"parley/plaintext"
)

// The strategies for the part of a conversation that does not fit into the window.
const (
	SlidingWindow = "sliding_window" // it is left out
	Summarization = "summarization"  // a summary takes its place
)

const (
	summaryTimeout = 5 * time.Minute
	summaryMessage = 4000 // runes of each message that the model reads
	summaryResult  = 800  // runes of each tool call and result that the model reads
)

// cutSummary stands at the end of a summary that reached the model's length limit.
const cutSummary = "[… the summary was cut off here …]"

const summaryPrompt = "You keep the notes of a long conversation. Write the summary anew so that it also covers what followed: " +
	"facts, names, numbers, decisions with their reasons, rules that were set, what was done to which files, what is still open. " +
	"Leave out courtesies. Write in the language of the conversation, in short lines, at most 400 words. Answer with the summary alone."

// summaries holds the conversations that are being summarised, so that none is
// summarised twice at once.
type summaries struct {
	mu      sync.Mutex
	ongoing map[string]chan struct{} // by conversation ID; closed when the summary is done
}

// begin reserves a conversation. Where it is reserved already, ours is false and done is
// closed when that ends.
func (s *summaries) begin(id string) (done chan struct{}, ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, is := s.ongoing[id]; is {
		return done, false
	}
	if s.ongoing == nil {
		s.ongoing = map[string]chan struct{}{}
	}
	done = make(chan struct{})
	s.ongoing[id] = done
	return done, true
}

func (s *summaries) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ongoing[id])
	delete(s.ongoing, id)
}

// What falls out of the window is summarised before it does. While the window fills, a
// summary of what will fall out is prepared in the background. It is shown when the
// window advances, and not before, so that the calls until then repeat each other. If
// the window must advance earlier, the run waits for the summary.

const (
	summaryWait  = time.Minute // how long a run waits for a summary before its window does without one
	stretchPart  = 0.6         // part of the budget that the messages of one summary may take; more than leave the window at once
	maxStretches = 8           // summaries that one background task makes to catch up
)

// requestSummary has what will fall out of the window soon summarised in the background,
// or what fell out of it without a summary, since the model had given none.
func (l *loop) requestSummary(run conversation.Run) {
	if l.deps.Strategy != Summarization || !l.cache.valid {
		return
	}
	snapshot := l.cache.snapshot
	id, start := snapshot.Conversation.ID, snapshot.Conversation.Window.Start
	before, enough, late := l.router.windowWithHint(snapshot, nil, "").Prepare(l.router.budgetOf(snapshot)), start, false
	if start > 0 && snapshot.Summary.Through < start-1 {
		before, enough, late = start, start-1, true
	}
	if before == 0 {
		return
	}
	if _, ours := l.router.summaries.begin(id); !ours {
		return
	}
	key, record, model := l.key, l.backgroundOf(run, id), l.router.setups.of(run.Conversation, run.Took[0]).model
	taken := l.router.background.submit(func(ctx context.Context) {
		defer l.router.summaries.end(id)
		made, err := l.router.summarize(ctx, id, enough, before, asker{budget: model.Budget, call: func(ctx context.Context, a sideCall) (llm.Response, error) {
			return l.router.askInBackground(ctx, key, model, record, a)
		}})
		if err != nil && ctx.Err() == nil {
			l.deps.Log.Log(ctx, l.router.backgroundLevel(model), "summary failed; the next answer tries again", "session", key, "error", err)
		}
		if made && late { // it is shown at once
			l.router.Edited(key)
		}
	})
	if !taken {
		l.router.summaries.end(id)
	}
}

// fit returns the list for the next call. Where the window advances, what falls out is
// summarised first, if that is the strategy. A summary that leaves no turn to show is made
// anew.
func (g *generation) fit(ctx context.Context) window.List {
	r, id := g.loop.router, g.conversation
	budget := g.calibration().Budget(g.budget)
	sent := g.window.Fit(budget)
	if prepared, list, ok := r.withPrepared(ctx, g.window, sent, id, budget); ok {
		g.window = prepared
		return list
	}
	if !g.lacksSummary(sent) {
		return sent
	}
	ctx, cancel := context.WithTimeout(ctx, summaryWait)
	defer cancel()
	stored := summary.New(g.deps.Store)
	err := stored.Drop(ctx, id, max(g.window.LastTurn(), sent.Window.Start))
	if err == nil {
		err = r.summarizeNow(ctx, id, sent.Window.Start, asker{budget: g.setup.model.Budget, call: g.ask})
	}
	if err != nil {
		if !errors.Is(context.Cause(ctx), errStopped) {
			g.deps.Log.Warn("summary failed; the window advances without it", "session", g.loop.key, "error", err)
		}
		g.unsummarised = sent.Window.Start
		return sent
	}
	made, err := stored.Newest(ctx, id)
	if err != nil {
		return sent
	}
	place := sent.Window
	place.Start = max(place.Start, made.Through+1)
	g.window = g.window.WithSummary(made, place)
	return g.window.Fit(budget)
}

// lacksSummary reports whether messages fall out of the window that no summary covers.
func (g *generation) lacksSummary(sent window.List) bool {
	return g.deps.Strategy == Summarization && !sent.Cramped && sent.Window.Start != g.window.Place().Start &&
		sent.Window.Start-1 > g.window.Covered() && sent.Window.Start != g.unsummarised
}

// withPrepared returns the window and the list with the summary that was prepared, where
// the list makes the window advance and with the summary everything fits. One that covers
// all turns, as after /undo or in /retry, leaves nothing to show, and is not used.
func (r *Router) withPrepared(ctx context.Context, w window.Window, sent window.List, id string, budget int) (window.Window, window.List, bool) {
	if r.deps.Strategy != Summarization || sent.Cramped || sent.Window.Start == w.Place().Start {
		return w, sent, false
	}
	prepared, err := summary.New(r.deps.Store).Newest(ctx, id)
	if err != nil || prepared.Through <= w.Covered() || prepared.Through < w.Place().Start || prepared.Through >= w.LastTurn() {
		return w, sent, false
	}
	place := sent.Window
	place.Start = prepared.Through + 1
	w = w.WithSummary(prepared, place)
	list := w.Fit(budget)
	return w, list, list.Window == place && !list.Cramped
}

// summarizeNow makes the summary of the messages before a seq, or waits for one that is
// being made.
func (r *Router) summarizeNow(ctx context.Context, id string, before int64, ask asker) error {
	for {
		done, ours := r.summaries.begin(id)
		if ours {
			defer r.summaries.end(id)
			_, err := r.summarize(ctx, id, before-1, before, ask)
			return err
		}
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// summarize makes and stores summaries until one covers the messages up to the seq
// enough. Each covers at most those before the seq before. It may run in the background;
// the loop may have ended.
func (r *Router) summarize(ctx context.Context, id string, enough, before int64, ask asker) (made bool, err error) {
	for range maxStretches {
		newest, err := summary.New(r.deps.Store).Newest(ctx, id)
		if err != nil || newest.Through >= enough {
			return made, err
		}
		stored, err := r.summarizeStretch(ctx, id, before, ask)
		if err != nil || !stored {
			return made, err
		}
		made = true
	}
	return made, nil
}

// summarizeStretch makes and stores a summary of the next messages before a seq, and of
// the summary before them.
func (r *Router) summarizeStretch(ctx context.Context, id string, before int64, ask asker) (stored bool, err error) {
	stretch, err := summary.New(r.deps.Store).Stretch(ctx, id, before, int(stretchPart*float64(ask.budget)))
	if err != nil || len(stretch.Messages) == 0 {
		return false, err
	}
	answer, err := ask.call(ctx, sideCall{steps.PurposeSummary, summaryTimeout, summaryPrompt, summaryQuestion(stretch)})
	if err != nil {
		return false, err
	}
	text, err := summaryOf(answer)
	if err != nil {
		return false, err
	}
	text, tokens := r.fitSummary(text, ask.budget/5)
	return summary.New(r.deps.Store).Add(ctx, stretch, text, tokens)
}

// summaryOf returns the summary that the model's answer has. One that reached the
// length limit says so at its end.
func summaryOf(answer llm.Response) (string, error) {
	text := strings.TrimSpace(answer.Text)
	switch {
	case text == "":
		return "", errors.New("the model gave no summary")
	case answer.FinishReason == llm.FinishContentFilter:
		return "", errors.New("the provider's content filter cut the summary off")
	case answer.IsCut(): // another attempt would be cut off as well
		text += "\n" + cutSummary
	}
	return text, nil
}

// fitSummary cuts a summary to at most so many tokens.
func (r *Router) fitSummary(text string, limit int) (fitted string, tokens int) {
	if tokens = r.deps.Counter.Text(text); tokens > limit {
		head, tail := r.deps.Counter.Cut(text, limit)
		text = head + window.CutNotice + tail
		tokens = r.deps.Counter.Text(text)
	}
	return text, tokens
}

func summaryQuestion(t summary.Stretch) string {
	var b strings.Builder
	if t.After.Through > 0 {
		fmt.Fprintf(&b, "The summary so far:\n\n%s\n\nWhat followed:\n\n", t.After.Content)
	}
	for _, m := range t.Messages {
		if m.State == conversation.LeftOut {
			continue
		}
		limit := summaryMessage
		if m.Role == conversation.RoleTool {
			limit = summaryResult
		}
		shown := window.ToModel(&m)
		fmt.Fprintf(&b, "%s: %s\n", m.Role, window.Excerpt(shown.Content, limit))
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&b, "%s calls %s %s\n", m.Role, call.Name, plaintext.ShortLine(call.Arguments, summaryResult))
		}
	}
	return b.String()
}
