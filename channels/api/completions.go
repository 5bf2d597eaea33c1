package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/kept"
	"parley/httpserver"
	"parley/llm"
)

// OpenAI's chat completions: https://platform.openai.com/docs/api-reference/chat.
// A request that names a session continues it: only the newest message of the user
// counts, since the memory is the gateway's. Any other is stateless.

// complete answers a chat completion request.
func (c *Channel) complete(w http.ResponseWriter, r *http.Request) {
	request, err := readCompletion(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if c.Stateless && !request.namesSession(r.Header) {
		c.completeStateless(w, r, request)
		return
	}
	q, err := request.question(r.Header)
	if err == nil {
		q.options.Model, err = c.askedModel(request.Model, q.key)
	}
	if err == nil {
		err = c.take(r.Context(), &q)
	}
	if err != nil {
		refuse(w, c.problemOf(r.Context(), err))
		return
	}
	done := completion{c: c, q: q, created: time.Now().Unix()}
	if request.Stream {
		done.stream(w, r, request.StreamOptions != nil && request.StreamOptions.IncludeUsage)
	} else {
		done.whole(w, r)
	}
}

// completion answers one question of a session in OpenAI's shape.
type completion struct {
	c       *Channel
	q       question
	created int64 // seconds since 1970
}

type completionAnswer struct {
	ID      string           `json:"id"`
	Object  string           `json:"object"`
	Created int64            `json:"created"`
	Model   string           `json:"model"`
	Choices []choice         `json:"choices"`
	Usage   *completionUsage `json:"usage,omitempty"`

	New      bool     `json:"new_conversation,omitempty"` // see answer.New; OpenAI has no such field
	Warnings []string `json:"warnings,omitempty"`         // what readers should know beside the text; OpenAI has no such field
}

type choice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatMessage `json:"delta,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`      // always null
	FinishReason *string      `json:"finish_reason"` // null while it goes on
}

type chatMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Refusal   *struct{}  `json:"refusal"` // always null
	ToolCalls []chatCall `json:"tool_calls,omitempty"`

	Images []chatImage `json:"images,omitempty"` // as OpenRouter has them
}

// chatImage is a picture of an answer, as OpenRouter has it:
// https://openrouter.ai/docs/features/multimodal/image-generation
type chatImage struct {
	Type     string `json:"type"` // always image_url
	Index    int    `json:"index"`
	ImageURL struct {
		URL string `json:"url"` // a data: URL
	} `json:"image_url"`
}

func chatImagesOf(list []llm.Image) (shown []chatImage) {
	for n, i := range list {
		c := chatImage{Type: "image_url", Index: n}
		c.ImageURL.URL = "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
		shown = append(shown, c)
	}
	return shown
}

// picturesOf returns the pictures of an answer. One whose bytes are gone is left out.
func (c *Channel) picturesOf(ctx context.Context, a kept.Answer) (list []llm.Image) {
	for _, p := range a.Pictures {
		data, err := c.Store.ImageData(ctx, p.Image)
		if err != nil {
			c.Log.Warn("picture of an answer not readable", "session", a.Key, "error", err)
			continue
		}
		list = append(list, llm.Image{MediaType: p.MediaType, Data: data})
	}
	return list
}

type completionUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func usageOfAnswer(a kept.Answer) *completionUsage {
	return &completionUsage{a.Prompt, a.Completion, a.Prompt + a.Completion}
}

// model returns the model that has answered, or else the one that was asked for.
func (d completion) model(a kept.Answer) string {
	return cmp.Or(a.Model, d.q.options.Model, d.c.Models[0])
}

// whole answers with one JSON object.
func (d completion) whole(w http.ResponseWriter, r *http.Request) {
	a, err := d.c.settled(r.Context(), d.q, unheard{})
	if err != nil {
		refuseStored(w, err)
		return
	}
	writeJSON(w, http.StatusOK, completionAnswer{
		ID: "chatcmpl-" + d.q.id, Object: "chat.completion", Created: d.created, Model: d.model(a),
		Choices: []choice{{Message: &chatMessage{Role: "assistant", Content: &a.Text, Images: chatImagesOf(d.c.picturesOf(r.Context(), a))}, FinishReason: finishReason(a)}},
		Usage:   usageOfAnswer(a), New: a.Began, Warnings: a.Warnings,
	})
}

// finishReason returns why an answer ended: the model's reason where it is not
// whole.
func finishReason(a kept.Answer) *string {
	reason := cmp.Or(openAIReason(string(a.FinishReason)), "stop")
	return &reason
}

// settled waits for the answer. Anything but an answer is a problem.
func (c *Channel) settled(ctx context.Context, q question, to listener) (kept.Answer, error) {
	a, err := c.await(ctx, q, preference{}, to)
	if err != nil {
		return a, c.unanswered(ctx, q, err)
	}
	switch a.State {
	case conversation.StatusDone, conversation.StatusStopped:
		return a, nil
	case conversation.StatusFailed:
		return a, c.failureOf(ctx, a)
	}
	return a, problem(http.StatusGone, "The message was answered, and the answer was deleted with its conversation.")
}

// failureOf returns the problem of an answer that has failed.
func (c *Channel) failureOf(ctx context.Context, a kept.Answer) error {
	if why, err := c.errorOf(ctx, a.Key, a.RunID); err == nil && why.isOverBudget() {
		return overBudget(a.Text)
	}
	return problem(http.StatusBadGateway, "%s", a.Text)
}

// chunkStream sends the progress of an answer in chunks of OpenAI's shape. They
// can't take back what was sent: text that does not continue the last one, as
// after a tool call, begins a new paragraph.
type chunkStream struct {
	completion
	*httpserver.Events
	text     string      // text of the model call under way that was sent
	answered kept.Answer // the zero value while the answer is awaited
}

// stream answers with chunks: the text, a last chunk with the finish reason, the
// usage where it is asked for, and [DONE].
func (d completion) stream(w http.ResponseWriter, r *http.Request, usage bool) {
	s := &chunkStream{completion: d, Events: httpserver.OpenEvents(w)}
	empty := ""
	if s.Send(s.chunk(&chatMessage{Role: "assistant", Content: &empty}, nil)) != nil {
		return
	}
	a, err := d.c.settled(r.Context(), d.q, s)
	if err != nil {
		_ = s.Send(event("", asOpenAIError(err).body())) // a client that is gone has ended it
		return
	}
	s.text, s.answered = saidOf(a.Text, s.text), a
	last := s.turnTo(a.Text)
	if pictures := chatImagesOf(d.c.picturesOf(r.Context(), a)); len(pictures) > 0 {
		last = append(last, s.chunk(&chatMessage{Images: pictures}, nil))
	}
	end := s.answer([]choice{{Delta: &chatMessage{}, FinishReason: finishReason(a)}}, nil)
	end.New, end.Warnings = a.Began, a.Warnings
	last = append(last, event("", end))
	if usage {
		last = append(last, event("", s.answer([]choice{}, usageOfAnswer(a))))
	}
	_ = s.Send(append(last, httpserver.Event{Data: "[DONE]"})...)
}

// saidOf returns what a stream has sent of an answer. An answer that was stopped or broke off is
// stored without the spaces at its ends, which were sent.
func saidOf(answer, sent string) string {
	if trimmed := strings.TrimSpace(sent); strings.HasPrefix(answer, trimmed) && !strings.HasPrefix(answer, sent) {
		return trimmed
	}
	return sent
}

func (s *chunkStream) progress(p activity.Progress) error {
	if events := s.turnTo(p.Text); len(events) > 0 {
		return s.Send(events...)
	}
	return nil
}

func (s *chunkStream) asked([]approvals.Question) (bool, error) { return false, nil }

func (s *chunkStream) turnTo(text string) []httpserver.Event {
	news, goesOn := strings.CutPrefix(text, s.text)
	if text == "" || goesOn && news == "" { // nothing, or a call that is made anew
		return nil
	}
	if !goesOn {
		news = "\n\n" + text
	}
	s.text = text
	return []httpserver.Event{s.chunk(&chatMessage{Content: &news}, nil)}
}

func (s *chunkStream) chunk(delta *chatMessage, finish *string) httpserver.Event {
	return event("", s.answer([]choice{{Delta: delta, FinishReason: finish}}, nil))
}

func (s *chunkStream) answer(choices []choice, usage *completionUsage) completionAnswer {
	return completionAnswer{
		ID: "chatcmpl-" + s.q.id, Object: "chat.completion.chunk", Created: s.created, Model: s.model(s.answered), Choices: choices, Usage: usage,
	}
}
