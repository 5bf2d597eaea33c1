package api

import (
	"net/http"
	"strings"

	"parley/activity"
	"parley/conversation"
	"parley/httpserver"
)

// chunkStream shows how an answer comes on, in chunks of OpenAI's shape. What
// was sent can't be taken back there: text that does not go on where the last
// ended, as behind a tool call, begins a new paragraph.
type chunkStream struct {
	completion
	*httpserver.Events
	text string // of the model call under way, as far as it was sent
}

// stream answers with chunks, a last one that says why it ended, the usage where
// that is asked for, and [DONE].
func (d completion) stream(w http.ResponseWriter, r *http.Request, usage bool) {
	s := &chunkStream{completion: d, Events: httpserver.OpenEvents(w)}
	empty := ""
	if s.Send(s.chunk(&chatMessage{Role: "assistant", Content: &empty}, nil)) != nil {
		return
	}
	a, err := d.settled(r.Context(), s)
	if err != nil {
		_, body := refusal(err)
		_ = s.Send(event("", body)) // a client that is gone has ended it
		return
	}
	last := append(s.turnTo(a.Text), s.chunk(&chatMessage{}, finishReason(a)))
	if usage {
		last = append(last, event("", s.answer([]choice{}, usageOfAnswer(a))))
	}
	_ = s.Send(append(last, httpserver.Event{Data: "[DONE]"})...)
}

func (s *chunkStream) progress(p activity.Progress) error {
	if events := s.turnTo(p.Text); len(events) > 0 {
		return s.Send(events...)
	}
	return nil
}

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
		ID: "chatcmpl-" + s.q.id, Object: "chat.completion.chunk", Created: s.created, Model: s.model(conversation.Answer{}), Choices: choices, Usage: usage,
	}
}
