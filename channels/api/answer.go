package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"parley/activity"
	"parley/conversation"
	"parley/httpserver"
)

// answer is the answer to a message, or its state while there is none.
type answer struct {
	ID           string           `json:"id" doc:"Of the message in its session: its Idempotency-Key, or one that the gateway made"`
	Session      conversation.Key `json:"session"`
	Status       string           `json:"status" enum:"waiting,done,failed,stopped,withdrawn" doc:"failed: the model gave no answer, and reply says why; stopped: somebody sent /stop"`
	Reply        string           `json:"reply" doc:"Markdown"`
	Run          int64            `json:"run,omitempty" doc:"What made the answer. Messages that came together are answered by one run"`
	Conversation string           `json:"conversation,omitempty"`
	New          bool             `json:"new_conversation,omitempty" doc:"The message began a new conversation, since the one before had rested for too long or had too many messages"`
	FinishReason string           `json:"finish_reason,omitempty" enum:"length,content_filter" doc:"Why the answer is not whole: the model's limit of tokens, or its provider's content filter; none of a whole one"`
	Model        string           `json:"model,omitempty"`
	Usage        *usage           `json:"usage,omitempty" doc:"None of commands"`
	ToolCalls    []usedTool       `json:"tool_calls,omitempty" doc:"Calls of tools that the run made"`
	Offers       []offer          `json:"offers,omitempty" doc:"What may be asked next"`
	File         *offeredFile     `json:"file,omitempty" doc:"That goes with the reply"`
	At           *time.Time       `json:"at,omitempty"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	ModelCalls int `json:"model_calls"`
}

type usedTool struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON as the model wrote it"`
	Result    string `json:"result,omitempty"`
}

type offer struct {
	Label   string `json:"label"`
	Command string `json:"command" doc:"To be sent as text"`
}

type offeredFile struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// answerOf returns an answer with the tool calls of its run. An answer that was
// deleted is a problem.
func (c *Channel) answerOf(ctx context.Context, q question, a conversation.Answer) (answer, error) {
	out := answer{ID: q.id, Session: q.key, Status: string(a.State), Reply: a.Text, Run: a.RunID, Conversation: a.Conversation, New: a.Began, Model: a.Model, FinishReason: string(a.FinishReason)}
	switch a.State {
	case conversation.StatusGone:
		return out, problem(http.StatusGone, "The message was answered, and the answer was deleted with its conversation.")
	case conversation.StatusWaiting, conversation.StatusWithdrawn:
		return out, nil
	}
	at := a.At.UTC()
	out.At = &at
	if a.Rounds > 0 {
		out.Usage = &usage{a.Prompt, a.Completion, a.Prompt + a.Completion, a.Rounds}
	}
	for _, action := range a.Actions {
		out.Offers = append(out.Offers, offer(action))
	}
	if t := a.Transcript; t != nil {
		out.File = &offeredFile{t.Name, chatPath(t.Conversation) + "/export?format=" + string(t.Format)}
	}
	var err error
	if a.Rounds > 1 { // of one call, the answer itself came
		out.ToolCalls, err = c.toolsOf(ctx, a)
	}
	return out, err
}

// toolsOf returns the tool calls of the run that made an answer. Its messages are
// the last ones up to where the conversation ended then.
func (c *Channel) toolsOf(ctx context.Context, a conversation.Answer) (used []usedTool, err error) {
	results := map[string]string{}
	const readAtOnce = 100
	for before := a.Through + 1; before > 1; {
		page, err := c.Store.Messages(ctx, conversation.MessageQuery{
			Conversation: a.Conversation, View: conversation.ViewAll, Before: before, Limit: readAtOnce,
		})
		if err != nil || len(page.Messages) == 0 {
			return used, err
		}
		for _, r := range slices.Backward(page.Messages) {
			if r.RunID != a.RunID {
				return used, nil
			}
			if r.Role == conversation.RoleTool {
				results[r.ToolCallID] = r.Content
			}
			for _, call := range slices.Backward(r.ToolCalls) {
				used = slices.Insert(used, 0, usedTool{call.ID, call.Name, call.Arguments, results[call.ID]})
			}
		}
		before = page.Messages[0].Seq
	}
	return used, nil
}

func answerPath(key conversation.Key, id string) string {
	return sessionPath(key) + "/answers/" + url.PathEscape(id)
}

func sessionPath(key conversation.Key) string {
	return prefix + "/sessions/" + url.PathEscape(string(key))
}

func chatPath(id string) string { return prefix + "/conversations/" + url.PathEscape(id) }

// errLeft says that the question is answered after the gateway's next start.
var errLeft = errors.New("the gateway ends before the answer")

// listener follows the progress of an answer. An error of either method ends the
// wait.
type listener interface {
	progress(p activity.Progress) error
	Beat() error // nothing has happened for a while
}

// unheard is the listener of a client that gets only the finished answer.
type unheard struct{}

func (unheard) progress(activity.Progress) error { return nil }
func (unheard) Beat() error                      { return nil }

// await waits until a question that was accepted is settled. Without an answer
// the error wraps errWaited when the client prefers not to wait longer, errLeft,
// the cause of ctx, or what the listener returned.
func (c *Channel) await(ctx context.Context, q question, prefer preference, to listener) (a conversation.Answer, err error) {
	watch := c.Feed.Watch(q.key)
	defer watch.Close()
	waiting, cancel := prefer.limit(ctx)
	defer cancel()
	err = httpserver.Follow(waiting, watch.C(), c.gate.Ending(), to.Beat, func(readStore bool) (done bool, err error) {
		run, working := watch.Now() // before the store, so that nothing falls between the two
		if readStore || !working || !run.Takes(a.ID) {
			if a, err = c.Store.Answer(ctx, ChannelName, q.source()); err != nil || a.State != conversation.StatusWaiting {
				return true, err
			}
		}
		mine := working && run.Takes(a.ID)
		switch {
		case mine:
			return false, to.progress(run)
		case c.gate.IsEnding():
			return false, errLeft
		}
		return false, nil
	})
	return a, err
}

// unanswered returns the error of await as a problem.
func (c *Channel) unanswered(ctx context.Context, q question, err error) error {
	switch {
	case errors.Is(err, errLeft), c.gate.IsEnding():
		return withRetryAfter(restartTime, problem(http.StatusServiceUnavailable,
			"The gateway is ending. The message is stored and will be answered at its next start: ask at %s, or send it again with the Idempotency-Key %s.", q.location(), q.id))
	case errors.Is(err, conversation.ErrNoAnswer):
		return problem(http.StatusNotFound, "No message with this id was sent to the session, or so long ago that it is forgotten.")
	}
	return c.problemOf(ctx, err)
}
