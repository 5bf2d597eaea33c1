package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"parley/conversation"
)

// answer is what has become of a message.
type answer struct {
	ID           string           `json:"id" doc:"Of the message in its session: its Idempotency-Key, or one that the gateway made"`
	Session      conversation.Key `json:"session"`
	Status       string           `json:"status" enum:"waiting,done,failed,stopped,withdrawn" doc:"failed: the model gave no answer, and reply says why; stopped: somebody sent /stop"`
	Reply        string           `json:"reply" doc:"Markdown"`
	Run          int64            `json:"run,omitempty" doc:"What made the answer. Messages that came together are answered by one run"`
	Conversation string           `json:"conversation,omitempty"`
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

// answerOf gives an answer with the tool calls of its run. One that was deleted
// is a problem.
func (c *Channel) answerOf(ctx context.Context, q question, a conversation.Answer) (answer, error) {
	out := answer{ID: q.id, Session: q.key, Status: string(a.State), Reply: a.Text, Run: a.RunID, Conversation: a.Conversation, Model: a.Model, FinishReason: string(a.FinishReason)}
	switch a.State {
	case conversation.AnswerGone:
		return out, problem(http.StatusGone, "The message was answered, and the answer was deleted with its conversation.")
	case conversation.AnswerWaiting, conversation.AnswerWithdrawn:
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

// toolsOf are the tool calls of the run that made an answer. Its messages are
// the last ones up to where the conversation ended then.
func (c *Channel) toolsOf(ctx context.Context, a conversation.Answer) (used []usedTool, err error) {
	results := map[string]string{}
	const readAtOnce = 100
	for before := a.Through + 1; before > 1; {
		page, _, err := c.Store.RecordPage(ctx, conversation.RecordQuery{
			Conversation: a.Conversation, View: conversation.ViewAll, Before: before, Limit: readAtOnce,
		})
		if err != nil || len(page) == 0 {
			return used, err
		}
		for _, r := range slices.Backward(page) {
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
		before = page[0].Seq
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
