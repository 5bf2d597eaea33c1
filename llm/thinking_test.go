package llm_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

func TestReasoningIsKeptApartFromTheAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, reasoning, wantThought, want string }{
		{"<think>\nfirst\n</think>\n\nIt is so.", "", "first", "It is so."},
		{" \n<thinking>a < b</thi b</thinking>yes", "", "a < b</thi b", "yes"},
		{"It is <think>not</think> so.", "", "", "It is <think>not</think> so."},
		{"<thin ice", "", "", "<thin ice"},
		{"<", "", "", "<"},
		{"plain", "in a field", "in a field", "plain"},
		{"<think></think>plain", "", "", "plain"},
	} {
		for _, pieces := range []int{1, 3, len(c.text)} {
			server := llmtest.New(t)
			server.Reply(func(llmtest.Call) llmtest.Answer {
				return llmtest.Answer{Text: c.text, Reasoning: c.reasoning, Pieces: pieces}
			})
			var shown, thought strings.Builder
			resp, err := llm.NewClient(fastRetries(server), nil).Complete(t.Context(), ask("why?"), func(d llm.Delta) {
				shown.WriteString(d.Text)
				thought.WriteString(d.Reasoning)
			})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%q %q", resp.Reasoning, resp.Text)
			if got != fmt.Sprintf("%q %q", c.wantThought, c.want) || shown.String() != c.want || strings.TrimSpace(thought.String()) != c.wantThought {
				t.Errorf("%q in %d pieces: %s, shown %q and %q", c.text, pieces, got, thought.String(), shown.String())
			}
		}
	}
}

// The chat template of the model has begun the thought already, so that the answer holds its end alone: the person does not
// read the thought, and an answer that is about such marks stays as it is.
func TestThoughtWithoutABeginningIsKeptApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, wantThought, want string }{
		{"first this\nthen that\n</think>\n\nIt is so.", "first this\nthen that", "It is so."},
		{"first this\n</think>\nA thought ends with\n</think>\n", "first this", "A thought ends with\n</think>\n"},
		{"It ends with `</think>`.\nSo do others.", "", "It ends with `</think>`.\nSo do others."},
		{"Write:\n```\n<think>\nfirst\n</think>\n```\n", "", "Write:\n```\n<think>\nfirst\n</think>\n```\n"},
	} {
		server := llmtest.New(t)
		for _, pieces := range []int{1, 3, len(c.text)} {
			server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: c.text, Pieces: pieces} })
			resp, shown := mustComplete(t, llm.NewClient(fastRetries(server), nil), ask("why?"))
			if resp.Reasoning != c.wantThought || resp.Text != c.want || shown != c.want {
				t.Errorf("%q in %d pieces: thought %q, answer %q, shown %q", c.text, pieces, resp.Reasoning, resp.Text, shown)
			}
		}
		final := ask("why?") // a program that has read the text can't be told to forget it
		final.Final = true
		_, err := llm.NewClient(fastRetries(server), nil).Complete(t.Context(), final, func(d llm.Delta) {
			if d.Reset {
				t.Errorf("%q was taken back", c.text)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestReasoningAloneIsNoAnswer(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "<think>on and on", FinishReason: "length"}
	})
	if told := mustFail(t, llm.NewClient(fastRetries(server), nil), llm.KindNoAnswer); !strings.Contains(told.User, "length limit") {
		t.Error(told.User)
	}
}

func TestReasoningOfAFailedAttemptIsDropped(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(llmtest.Answer{Reasoning: "first", Text: "half", CutAfter: 3}, llmtest.Answer{Reasoning: "second", Text: "whole"})
	var thought strings.Builder
	resp, err := llm.NewClient(fastRetries(server), nil).Complete(t.Context(), ask("why?"), func(d llm.Delta) {
		if d.Reset {
			thought.Reset()
		}
		thought.WriteString(d.Reasoning)
	})
	if err != nil || resp.Reasoning != "second" || thought.String() != "second" {
		t.Errorf("%+v, %v, shown %q", resp, err, thought.String())
	}
}
