package llm_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/llm"
	"parley/llm/llmtest"
)

// chooseAll returns the models of a gateway with this [llm] section and further models.
func chooseAll(t *testing.T, cfg llm.Config, named map[string]llm.ModelConfig) *llm.Models {
	t.Helper()
	models, err := llm.ChooseAll(t.Context(), cfg, named, func(string) string { return "" }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return models
}

// find returns a model by its name.
func find(t *testing.T, models *llm.Models, name string) llm.Named {
	t.Helper()
	for _, m := range models.List() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no model %q", name)
	return llm.Named{}
}

// stateOf returns whether a model is called.
func stateOf(t *testing.T, models *llm.Models, name string) llm.State {
	t.Helper()
	for _, h := range models.Health() {
		if h.Model == name {
			return h.State
		}
	}
	t.Fatalf("nothing is known of %q", name)
	return ""
}

// badGateway answers every call with status 502.
func badGateway(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusBadGateway} }

func TestModelOfAnotherServerAnswersDuringAnOutage(t *testing.T) {
	t.Parallel()
	first, second := llmtest.New(t), llmtest.New(t)
	first.Reply(badGateway)
	cfg := fastRetries(first)
	cfg.FallbackModels, cfg.OutageAfter, cfg.OutagePause = []string{"other"}, time.Nanosecond, time.Hour
	cfg.APIKey = "key-of-the-first"
	models := chooseAll(t, cfg, map[string]llm.ModelConfig{"other": {BaseURL: second.URL(), Model: "second-model"}})
	model := models.List()[0].Model

	var told []string
	request := ask("hello")
	request.Waiting = func(w llm.Waiting) { told = append(told, w.Words()) }
	resp, err := model.Complete(t.Context(), request, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Text != "echo: hello" || resp.Model != "other" || resp.Fallback == nil || resp.Fallback.Of != "test-model" {
		t.Errorf("%+v", resp)
	}
	if got := resp.Fallback.Words(resp.Model); got != "↪ *Answered by other, since test-model is in trouble.*" {
		t.Errorf("below the answer stands %q", got)
	}
	if !slices.Contains(told, "⏳ The model's server is in trouble. Trying other.") {
		t.Errorf("people are told %q", told)
	}
	if key := second.Calls()[0].Header.Get("Authorization"); key != "" {
		t.Errorf("the other server got %q", key)
	}

	var before int
	for n := range 4 {
		if _, err := model.Complete(t.Context(), ask("again"), nil); err != nil {
			t.Fatal(err)
		}
		if n == 0 { // the second call finds that it is not the message
			before = first.Served()
		}
	}
	if got := first.Served(); got != before || stateOf(t, models, "test-model") != llm.StateDown || stateOf(t, models, "other") != llm.StateUp {
		t.Errorf("the dead server was called %d more times; %+v", got-before, models.Health())
	}
}

// A message on which the model's server fails, whatever the reason, holds up no other chat.
func TestMessageThatTheServerFailsOnHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(call llmtest.Call) llmtest.Answer {
		if call.Messages[len(call.Messages)-1].Content == "crash" {
			return badGateway(call)
		}
		return llmtest.Echo(call)
	})
	cfg := fastRetries(server)
	cfg.OutageAfter, cfg.OutagePause = time.Nanosecond, time.Hour
	models := chooseAll(t, cfg, nil)
	model := models.List()[0].Model
	for range 3 {
		if _, err := model.Complete(t.Context(), ask("crash"), nil); llm.KindOf(err) != llm.KindUnavailable {
			t.Fatal(err)
		}
		if resp, err := model.Complete(t.Context(), ask("hello"), nil); err != nil || resp.Text != "echo: hello" {
			t.Fatalf("%q, %v; %+v", resp.Text, err, models.Health())
		}
	}
}

func TestOneCallProbesAFailedModel(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(badGateway)
	cfg := fastRetries(server)
	cfg.OutageAfter, cfg.OutagePause = time.Nanosecond, 20*time.Millisecond
	models := chooseAll(t, cfg, nil)
	model := models.List()[0].Model
	if _, err := model.Complete(t.Context(), ask("hello"), nil); llm.KindOf(err) != llm.KindUnavailable {
		t.Fatal(err)
	}
	if server.Served() != 4 || stateOf(t, models, "test-model") != llm.StateUp {
		t.Fatalf("after %d calls: %+v", server.Served(), models.Health())
	}
	second, end := context.WithCancel(t.Context())
	defer end()
	request := ask("hello")
	request.Waiting = func(llm.Waiting) { end() } // once it has failed
	if _, err := model.Complete(second, request, nil); err == nil || stateOf(t, models, "test-model") == llm.StateUp {
		t.Fatalf("%v; after %d calls: %+v", err, server.Served(), models.Health())
	}
	server.Reply(llmtest.Echo)
	answered := make(chan error)
	for range 20 { // without a fallback they wait for the one that tries
		go func() {
			_, err := model.Complete(t.Context(), ask("again"), nil)
			answered <- err
		}()
	}
	for range 20 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	if stateOf(t, models, "test-model") != llm.StateUp {
		t.Errorf("%+v", models.Health())
	}
}

func TestBusyModelDoesNotCountAsAnOutage(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusTooManyRequests} })
	cfg := fastRetries(server)
	cfg.OutageAfter, cfg.OutagePause = time.Nanosecond, time.Hour
	models := chooseAll(t, cfg, nil)
	for range 3 {
		if _, err := models.List()[0].Model.Complete(t.Context(), ask("hello"), nil); llm.KindOf(err) != llm.KindBusy {
			t.Fatal(err)
		}
	}
	if server.Served() != 12 || stateOf(t, models, "test-model") != llm.StateUp {
		t.Errorf("%d calls, %+v", server.Served(), models.Health())
	}
}

func TestFallbackAnswersWhenTheModelAsksForALongWait(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Model == "test-model" {
			return llmtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"20"}}}
		}
		return llmtest.Echo(c)
	})
	cfg := fastRetries(server)
	cfg.FallbackModels = []string{"spare"}
	resp, err := llm.NewClient(cfg, nil).Complete(t.Context(), ask("hello"), nil)
	if err != nil || resp.Model != "spare" || resp.Fallback.Kind != llm.KindBusy || server.Served() != 2 {
		t.Errorf("%+v, %v after %d calls", resp, err, server.Served())
	}
}

// When the credit is used up or the key is revoked, a model of another account answers. Further models of
// the same account are not called, since they would refuse, too.
func TestAModelOfAnotherAccountAnswersWhereTheFirstOneIsRefused(t *testing.T) {
	t.Parallel()
	for status, kind := range map[int]llm.Kind{http.StatusUnauthorized: llm.KindUnauthorized, http.StatusPaymentRequired: llm.KindNoCredit} {
		first, second := llmtest.New(t), llmtest.New(t)
		first.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: status} })
		cfg := fastRetries(first)
		cfg.FallbackModels, cfg.APIKey = []string{"spare", "home"}, "revoked"
		models := chooseAll(t, cfg, map[string]llm.ModelConfig{"home": {BaseURL: second.URL()}})
		var told []string
		request := ask("hello")
		request.Waiting = func(w llm.Waiting) { told = append(told, w.Words()) }
		resp, err := models.List()[0].Model.Complete(t.Context(), request, nil)
		if err != nil || resp.Model != "home" || resp.Fallback == nil || resp.Fallback.Kind != kind || first.Served() != 1 {
			t.Fatalf("%d: %+v, %v after %d calls", status, resp, err, first.Served())
		}
		if got := resp.Fallback.Words(resp.Model); got != "↪ *Answered by home, since test-model can't be used now.*" {
			t.Errorf("%d: below the answer stands %q", status, got)
		}
		if !slices.Equal(told, []string{"⏳ The model can't be used now. Trying home."}) {
			t.Errorf("%d: people are told %q", status, told)
		}
		second.Reply(badGateway)
		if _, err := models.List()[0].Model.Complete(t.Context(), ask("again"), nil); llm.KindOf(err) != kind {
			t.Errorf("%d, and no fallback: %v", status, err)
		}
	}
}

func TestFallbackWithASmallerContextIsSentLess(t *testing.T) {
	t.Parallel()
	first, second := llmtest.New(t), llmtest.New(t)
	first.Reply(badGateway)
	small := 1000
	cfg := fastRetries(first)
	cfg.FallbackModels = []string{"small"}
	models := chooseAll(t, cfg, map[string]llm.ModelConfig{"small": {BaseURL: second.URL(), ContextWindow: &small}})
	request := ask("a long story")
	var asked int
	request.Rebuild = func(window int) []llm.Message {
		asked = window
		return ask("the end of it").Messages
	}
	if _, err := models.List()[0].Model.Complete(t.Context(), request, nil); err != nil {
		t.Fatal(err)
	}
	if got := second.Calls()[0].LastUser(); asked != small || got != "the end of it" {
		t.Errorf("asked for %d tokens, sent %q", asked, got)
	}
	request.Rebuild = func(int) []llm.Message { return nil }
	if _, err := models.List()[0].Model.Complete(t.Context(), request, nil); llm.KindOf(err) != llm.KindTooLong {
		t.Errorf("without room: %v", err)
	}
}

func TestNamedModelsInheritSettingsOfTheDefaultModel(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.RequireKey("shared")
	cfg := fastRetries(server)
	cfg.APIKey = "shared"
	warm := 1.5
	price := 2.0
	named := map[string]llm.ModelConfig{"large": {Model: "large-2", Temperature: &warm, InputPrice: &price, OutputPrice: &price}}
	large := find(t, chooseAll(t, cfg, named), "large")
	resp, err := large.Model.Complete(t.Context(), ask("hello"), nil)
	if err != nil || resp.Model != "large" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if c := server.Calls()[0]; c.Model != "large-2" || c.Temperature == nil || *c.Temperature != warm {
		t.Errorf("%+v", c)
	}
	if cost, known := llm.AllPrices(nil, named).Cost("large", 1e6, 0, 0); !known || cost != price {
		t.Errorf("the cost is %v, %v", cost, known)
	}
}

func TestErrorsOfANamedModelNameItsSection(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.RequireKey("another")
	models := chooseAll(t, fastRetries(server), map[string]llm.ModelConfig{"large": {BaseURL: server.URL(), APIKey: "wrong"}})
	_, err := find(t, models, "large").Model.Complete(t.Context(), ask("hello"), nil)
	if err == nil || !strings.Contains(err.Error(), "api_key in [models.large]") {
		t.Error(err)
	}
}

// An outage is logged when it begins and when it ends, however many calls are made meanwhile.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	first, second := llmtest.New(t), llmtest.New(t)
	first.Reply(badGateway)
	var written bytes.Buffer
	cfg := fastRetries(first)
	cfg.FallbackModels, cfg.OutageAfter, cfg.OutagePause = []string{"other"}, time.Nanosecond, time.Millisecond
	models, err := llm.ChooseAll(t.Context(), cfg, map[string]llm.ModelConfig{"other": {BaseURL: second.URL(), Model: "second-model"}},
		func(string) string { return "" }, nil, slog.New(slog.NewTextHandler(&written, nil)))
	if err != nil {
		t.Fatal(err)
	}
	model := models.List()[0].Model
	call := func() {
		t.Helper()
		if _, err := model.Complete(t.Context(), ask("hello"), nil); err != nil {
			t.Fatal(err)
		}
	}
	for stateOf(t, models, "test-model") == llm.StateUp {
		call()
	}
	if n := strings.Count(written.String(), "model is down"); n != 1 {
		t.Errorf("the begin of the outage is logged %d times: %s", n, &written)
	}
	written.Reset()
	for range 20 {
		call()
	}
	if written.Len() > 0 {
		t.Errorf("calls in the outage log %s", &written)
	}
	first.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "back"} })
	for stateOf(t, models, "test-model") != llm.StateUp {
		call()
	}
	if text := written.String(); strings.Count(text, "model answers again") != 1 || strings.Contains(text, "WARN") {
		t.Errorf("the end of the outage: %s", text)
	}
}

// An answer breaks off, and that failure is the one after which the model is not called for a while: the person keeps what
// has come of it.
func TestAnswerThatBreaksOffAtTheBeginningOfAnOutageIsKept(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(badGateway)
	cfg := fastRetries(server)
	cfg.OutageAfter, cfg.OutagePause, cfg.MaxTries = time.Nanosecond, time.Hour, 3
	client := llm.NewClient(cfg, nil)
	mustFail(t, client, llm.KindUnavailable)
	server.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "Once upon a time there was a king", CutAfter: 4}
	})
	resp, shown := mustComplete(t, client, ask("a story"))
	if !strings.HasPrefix(resp.Text, "Once upon") || resp.FinishReason != llm.FinishCutOff || shown != resp.Text {
		t.Errorf("%+v, shown %q", resp, shown)
	}
}

// The call that tests whether a model answers again panics: the next call tests it, and everybody gets answers without a
// restart.
func TestPanicDuringAProbeLeavesTheModelUsable(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(badGateway)
	cfg := fastRetries(server)
	cfg.OutageAfter, cfg.OutagePause = time.Nanosecond, time.Millisecond
	client := llm.NewClient(cfg, nil)
	mustFail(t, client, llm.KindUnavailable)
	server.Reply(llmtest.Echo)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it has not panicked")
			}
		}()
		_, _ = client.Complete(t.Context(), ask("hello"), func(llm.Delta) { panic("broken preview") })
	}()
	if resp, _ := mustComplete(t, client, ask("again")); resp.Text != "echo: again" {
		t.Errorf("%+v", resp)
	}
}

// A call in the background does not try whether a model is back, and its failures begin no outage: a person's message is sent.
func TestBackgroundCallsTryNothingOut(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	cfg := fastRetries(server)
	cfg.OutageAfter, cfg.OutagePause = time.Nanosecond, time.Millisecond
	models := chooseAll(t, cfg, nil)
	model := models.List()[0].Model
	title := ask("a title")
	title.Background = true

	server.Reply(badGateway)
	for range 5 {
		if _, err := model.Complete(t.Context(), title, nil); llm.KindOf(err) != llm.KindUnavailable {
			t.Fatalf("a call in the background gives %v", err)
		}
	}
	if state := stateOf(t, models, "test-model"); state != llm.StateUp || !models.Health()[0].Since.IsZero() {
		t.Errorf("after failed calls in the background the model is %s since %v", state, models.Health()[0].Since)
	}
	for range 3 {
		if _, err := model.Complete(t.Context(), ask("hello"), nil); err == nil {
			t.Fatal("a model that is down has answered")
		}
	}
	for stateOf(t, models, "test-model") != llm.StateTrying {
		time.Sleep(time.Millisecond)
	}
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "here"} })
	served := server.Served()
	if _, err := model.Complete(t.Context(), title, nil); err == nil || server.Served() != served {
		t.Errorf("a call in the background was made to a model that is down: %v", err)
	}
	if _, err := model.Complete(t.Context(), ask("hello"), nil); err != nil {
		t.Errorf("the person's message after it gives %v", err)
	}
	if _, err := model.Complete(t.Context(), title, nil); err != nil {
		t.Errorf("after the outage, a call in the background gives %v", err)
	}
}

// Hundreds of failures are one warning a minute.
func TestFailuresOfAModelAreOneWarning(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusTooManyRequests} })
	var log bytes.Buffer
	model := llm.NewClient(fastRetries(server), slog.New(slog.NewTextHandler(&log, nil)))
	for range 50 {
		if _, err := model.Complete(t.Context(), ask("hello"), nil); err == nil {
			t.Fatal("answered")
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("50 failed calls wrote %d lines:\n%s", n, log.String())
	}
}
