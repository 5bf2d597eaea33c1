package llm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
	"parley/llm/llmtest"
)

// attempts collects the attempts of a call, a line for each.
func attempts(list *[]string) func(llm.Attempt) {
	return func(a llm.Attempt) {
		line := fmt.Sprint(a.Model, " ", a.Usage.Completion)
		var failed *llm.Error
		switch {
		case errors.As(a.Err, &failed):
			line += fmt.Sprint(" status ", failed.Status)
		case a.Err != nil:
			line += " " + a.Err.Error()
		}
		if a.At.IsZero() || a.FirstByte > a.Took || a.Err == nil && a.FirstByte <= 0 {
			line += fmt.Sprintf(" with odd times: %+v", a)
		}
		*list = append(*list, line)
	}
}

func TestEveryAttemptIsReported(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Models("first", "second")
	server.Script(
		llmtest.Answer{Status: http.StatusServiceUnavailable},
		llmtest.Answer{Status: http.StatusNotFound, Body: `{"error":{"message":"model_not_found"}}`},
		llmtest.Answer{Text: "Here I am.", Usage: &llm.Usage{Prompt: 10, Completion: 3}},
	)
	var asked, all []string
	cfg := fastRetries(server)
	cfg.Model, cfg.FallbackModels, cfg.Attempted = "first", []string{"second"}, attempts(&all)
	request := ask("hello")
	request.Attempted = attempts(&asked)
	if _, err := llm.NewClient(cfg, nil).Complete(t.Context(), request, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"first 0 status 503", "first 0 status 404", "second 3"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

func TestAnAttemptThatIsStoppedSaysSo(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Script(llmtest.Answer{Text: "once upon a time", NoFinish: true, Silence: true})
	ctx, cancel := context.WithCancelCause(t.Context())
	var told []string
	request := ask("a tale")
	request.Attempted = attempts(&told)
	_, err := llm.NewClient(fastRetries(server), nil).Complete(ctx, request, func(llm.Delta) { cancel(errors.New("stopped")) })
	if err == nil || len(told) != 1 || told[0] != fastRetries(server).Model+" 0 stopped" {
		t.Errorf("%q, %v", told, err)
	}
}

func TestOfflineModelReportsItsAttempt(t *testing.T) {
	t.Parallel()
	var told []string
	request := ask("hello")
	request.Attempted = attempts(&told)
	if _, err := llm.NewOffline().Complete(t.Context(), request, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"offline 0"}, told); diff != "" {
		t.Error(diff)
	}
}
