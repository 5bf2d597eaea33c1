package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/kept"
	stored "parley/conversation/usage"
	"parley/httpserver"
	"parley/llm"
)

// answer is the answer to a message, or its state while there is none.
type answer struct {
	ID           string           `json:"id" doc:"The id of the message in its session: its Idempotency-Key, or one that the gateway made"`
	Session      conversation.Key `json:"session"`
	Status       string           `json:"status" enum:"waiting,waiting_for_approval,done,failed,stopped,withdrawn" doc:"waiting_for_approval: the answer goes on when somebody has answered the approvals; failed: the model gave no answer, and reply says why; stopped: its run was stopped"`
	Reply        string           `json:"reply" doc:"Markdown"`
	Run          int64            `json:"run,omitempty" doc:"The id of the run that made the answer, or, at the address of the answer, is making it. One run may answer several messages"`
	Conversation string           `json:"conversation,omitempty"`
	New          bool             `json:"new_conversation,omitempty" doc:"The message began a new conversation, since the one before was not used for too long or had too many messages"`
	FinishReason string           `json:"finish_reason,omitempty" enum:"length,content_filter,cut_off" doc:"Why the answer is incomplete: the model's limit of tokens, its provider's content filter, or a stream that broke off; absent if it is complete"`
	Model        string           `json:"model,omitempty"`
	Agent        string           `json:"agent,omitempty" doc:"The agent that answered; absent: the default one"`
	Usage        *usage           `json:"usage,omitempty" doc:"Absent for commands"`
	Warnings     []string         `json:"warnings,omitempty" doc:"What readers should know beside the reply, as Markdown: that most of a budget is used, that a fallback model has answered, that a file could not be read"`
	Approvals    []approval       `json:"approvals,omitempty" doc:"The tool calls that somebody must allow or refuse before the answer goes on"`
	Images       []image          `json:"images,omitempty" doc:"Pictures that the model made, and those of tools that the answer names"`
	ToolCalls    []usedTool       `json:"tool_calls,omitempty" doc:"Calls of tools that the run made"`
	Offers       []offer          `json:"offers,omitempty" doc:"Commands that may be sent next"`
	File         *offeredFile     `json:"file,omitempty" doc:"A file that belongs to the reply"`
	Error        *runError        `json:"error,omitempty" doc:"Why the run failed"`
	At           *time.Time       `json:"at,omitempty"`
}

// runError says why a run has failed.
type runError struct {
	Kind    string `json:"kind" enum:"busy,unavailable,unreachable,timeout,cut_off,no_answer,only_tools,not_an_api,unauthorized,no_credit,unknown_model,too_long,withheld,refused,over_budget,internal" doc:"internal: the cause is the gateway and not the model"`
	Message string `json:"message" doc:"For the operator of the gateway"`
}

// internalFailure is the kind of a failure that is not the model's.
const internalFailure = "internal"

// isOverBudget reports whether a cap was reached.
func (e *runError) isOverBudget() bool { return e != nil && e.Kind == string(llm.KindOverBudget) }

// errorOf returns why a run has failed: the kind is that of the last call that failed.
func (c *Channel) errorOf(ctx context.Context, key conversation.Key, id int64) (*runError, error) {
	run, known, err := stored.New(c.Store).Run(ctx, key, id)
	if err != nil || !known {
		return nil, err
	}
	e := &runError{Kind: internalFailure, Message: run.Error}
	for _, s := range slices.Backward(run.Steps) {
		if s.Failure != "" {
			e.Kind = s.Failure
			break
		}
	}
	return e, nil
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
	Command string `json:"command" doc:"The command, to be sent as text"`
}

type offeredFile struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// answerOf returns an answer with the tool calls of its run. An answer that was
// deleted is a problem.
func (c *Channel) answerOf(ctx context.Context, q question, a kept.Answer) (answer, error) {
	out := answer{ID: q.id, Session: q.key, Status: string(a.State), Reply: a.Text, Run: a.RunID, Conversation: a.Conversation, New: a.Began, Model: a.Model, Agent: a.Agent, FinishReason: string(a.FinishReason)}
	switch a.State {
	case conversation.StatusGone:
		return out, problem(http.StatusGone, "The message was answered, and the answer was deleted with its conversation.")
	case conversation.StatusWaiting:
		if q.again {
			out.Run = c.runUnderWay(q.key, a.ID)
		}
		open, err := c.waitingFor(ctx, q.key, a.ID)
		if err == nil && len(open) > 0 {
			out.Status, out.Approvals = waitingForApproval, approvalsOf(open)
		}
		return out, err
	case conversation.StatusWithdrawn:
		return out, nil
	}
	at := a.At.UTC()
	out.At, out.Warnings = &at, a.Warnings
	if a.Rounds > 0 {
		out.Usage = &usage{a.Prompt, a.Completion, a.Prompt + a.Completion, a.Rounds}
	}
	for _, p := range a.Pictures {
		out.Images = append(out.Images, imageOf(p.Image, a.Conversation, p.Seq, p.N))
	}
	for _, action := range a.Actions {
		out.Offers = append(out.Offers, offer(action))
	}
	if t := a.Transcript; t != nil {
		out.File = &offeredFile{t.Name, chatPath(t.Conversation) + "/export?format=" + string(t.Format)}
	}
	var err error
	if a.State == conversation.StatusFailed {
		if out.Error, err = c.errorOf(ctx, q.key, a.RunID); err != nil {
			return out, err
		}
	}
	if a.Rounds > 1 { // of one call, the answer itself came
		out.ToolCalls, err = c.toolsOf(ctx, a)
	}
	return out, err
}

// waitingForApproval is the status of a message whose run waits for the answer of a person.
const waitingForApproval = "waiting_for_approval"

// toolsOf returns the tool calls of the run that made an answer. Its messages are
// the last ones up to where the conversation ended then.
func (c *Channel) toolsOf(ctx context.Context, a kept.Answer) (used []usedTool, err error) {
	results := map[string]string{}
	const readAtOnce = 100
	expected := 2*a.Rounds + 1 // its messages, where each round calls one tool
	for before := a.Through + 1; before > 1; {
		page, err := c.Store.Messages(ctx, conversation.MessageQuery{
			Conversation: a.Conversation, View: conversation.ViewAll, Before: before, Limit: min(expected, readAtOnce),
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

func filePath(id string, seq int64, n int) string {
	return fmt.Sprintf("%s/messages/%d/files/%d", chatPath(id), seq, n)
}

func imagePath(id string, seq int64, n int) string {
	return fmt.Sprintf("%s/messages/%d/images/%d", chatPath(id), seq, n)
}

func chatPath(id string) string { return prefix + "/conversations/" + url.PathEscape(id) }

// errLeft says that the question is answered after the gateway's next start.
var errLeft = errors.New("the gateway ends before the answer")

// listener follows the progress of an answer. An error of either method ends the
// wait.
type listener interface {
	progress(p activity.Progress) error
	// asked is told of the questions that the answer waits for, and returns whether the wait
	// ends with them.
	asked(open []approvals.Question) (enough bool, err error)
	Beat() error // is called when nothing has happened for a while
}

// unheard is the listener of a client that gets only the finished answer.
type unheard struct{}

func (unheard) progress(activity.Progress) error { return nil }
func (unheard) Beat() error                      { return nil }
func (unheard) asked([]approvals.Question) (bool, error) {
	return false, nil
}

// untilAsked is the listener of a client that gets the finished answer, or the question that
// it waits for.
type untilAsked struct{ unheard }

func (untilAsked) asked(open []approvals.Question) (bool, error) { return len(open) > 0, nil }

// await waits until a question that was accepted is settled. Without an answer
// the error wraps errWaited when the client prefers not to wait longer, errLeft,
// the cause of ctx, or what the listener returned.
func (c *Channel) await(ctx context.Context, q question, prefer preference, to listener) (a kept.Answer, err error) {
	watch := c.Feed.Watch(q.key)
	defer watch.Close()
	waiting, cancel := prefer.limit(ctx)
	defer cancel()
	err = httpserver.Follow(waiting, watch.C(), c.gate.Ending(), to.Beat, func(readStore bool) (done bool, err error) {
		changed := watch.Stored()
		run, working := watch.Now() // before the store, so that nothing falls between the two
		if readStore || changed || !working || !run.Takes(a.ID) {
			if a, err = kept.New(c.Store).Answer(ctx, ChannelName, q.source()); err != nil || a.State != conversation.StatusWaiting {
				return true, err
			}
		}
		mine := working && run.Takes(a.ID)
		switch {
		case mine:
			return false, to.progress(run)
		case c.gate.IsEnding():
			return false, errLeft
		case working:
			return false, nil
		}
		open, err := c.waitingFor(ctx, q.key, a.ID)
		if err != nil || len(open) == 0 {
			return false, err
		}
		return to.asked(open)
	})
	return a, err
}

// unanswered returns the error of await as a problem.
func (c *Channel) unanswered(ctx context.Context, q question, err error) error {
	switch {
	case errors.Is(err, errLeft), c.gate.IsEnding():
		return withRetryAfter(restartTime, problem(http.StatusServiceUnavailable,
			"The gateway is ending. The message is stored and will be answered at its next start: ask at %s, or send it again with the Idempotency-Key %s.", q.location(), q.id))
	case errors.Is(err, kept.ErrNoAnswer):
		return problem(http.StatusNotFound, "No message with this id was sent to the session, or so long ago that it is forgotten.")
	}
	return c.problemOf(ctx, err)
}
