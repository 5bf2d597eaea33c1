package llm_test

import (
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// The operator is told which server failed and which key to check. People in a chat are told what they can
// do, without servers and keys.
func TestFailuresNameTheServerOnlyToTheOperator(t *testing.T) {
	t.Parallel()
	page := "<!doctype html><title>Welcome</title>"
	for name, test := range map[string]struct {
		answer   llmtest.Answer
		key      string // that the server wants
		kind     llm.Kind
		operator []string
		user     string
	}{
		"wrong key":       {key: "another", kind: llm.KindUnauthorized, operator: []string{"does not accept the API key; check api_key in [llm]", "(status 401)"}, user: "tell whoever runs it"},
		"a page":          {answer: llmtest.Answer{Body: page}, kind: llm.KindNotAPI, operator: []string{"this looks like a web page", "check base_url in [llm], it usually ends in /v1"}, user: "tell whoever runs it"},
		"a page, as 404":  {answer: llmtest.Answer{Status: 404, Body: page}, kind: llm.KindNotAPI, operator: []string{"this looks like a web page", "/v1"}, user: "tell whoever runs it"},
		"nothing there":   {answer: llmtest.Answer{Status: 404, Body: "404 page not found"}, kind: llm.KindNotAPI, operator: []string{"nothing answers at http://", "usually ends in /v1"}, user: "tell whoever runs it"},
		"no such model":   {answer: llmtest.Answer{Status: 404, Body: `{"error":{"message":"The model does not exist"}}`}, kind: llm.KindUnknownModel, operator: []string{`does not have the model "test-model"`, "set model in [llm]", `the server said "The model does not exist"`}, user: "tell whoever runs it"},
		"with a code":     {answer: llmtest.Answer{Status: 401, Body: `{"error":{"message":"Wrong key.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`}, kind: llm.KindUnauthorized, operator: []string{`the server said "Wrong key." (invalid_api_key)`}, user: "tell whoever runs it"},
		"with more":       {answer: llmtest.Answer{Status: 422, Body: `{"error":{"message":"Provider returned error","metadata":{"raw":"no such tool"}}}`}, kind: llm.KindRefused, operator: []string{"no such tool"}, user: "ask in other words"},
		"busy":            {answer: llmtest.Answer{Status: 429, Header: map[string][]string{"Retry-After": {"90"}}}, kind: llm.KindBusy, operator: []string{"is busy and asks to wait 1m30s"}, user: "Please try again in 90 seconds."},
		"in trouble":      {answer: llmtest.Answer{Status: 500}, kind: llm.KindUnavailable, operator: []string{"is in trouble"}, user: "try again in a moment"},
		"no credit":       {answer: llmtest.Answer{Status: 402}, kind: llm.KindNoCredit, operator: []string{"has no credit left"}, user: "tell whoever runs it"},
		"refused":         {answer: llmtest.Answer{Status: 422}, kind: llm.KindRefused, operator: []string{"refused the request"}, user: "ask in other words"},
		"cut off":         {answer: llmtest.Answer{HangUp: true}, kind: llm.KindUnreachable, operator: []string{"can't be reached; check that it runs, and base_url in [llm]"}, user: "try again later"},
		"an empty answer": {kind: llm.KindNoAnswer, operator: []string{"gave no answer"}, user: "in other words"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := llmtest.New(t)
			server.RequireKey(test.key)
			server.Reply(func(llmtest.Call) llmtest.Answer { return test.answer })
			cfg := fastRetries(server)
			cfg.APIKey = "sk-0123456789"
			told := mustFail(t, llm.NewClient(cfg, nil), test.kind)
			host := strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/v1")
			for _, want := range append(test.operator, host) {
				if !strings.Contains(told.Error(), want) {
					t.Errorf("the operator is told %q, want %q in it", told.Error(), want)
				}
			}
			if !strings.Contains(told.User, test.user) {
				t.Errorf("the user is told %q, want %q in it", told.User, test.user)
			}
			for _, secret := range []string{host, "[llm]", "base_url", "API key"} {
				if strings.Contains(told.User, secret) {
					t.Errorf("the user is told of %s: %q", secret, told.User)
				}
			}
			if strings.Contains(told.Error(), cfg.APIKey) {
				t.Errorf("the key is told: %s", told.Error())
			}
		})
	}
}
