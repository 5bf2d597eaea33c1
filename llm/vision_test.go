package llm_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// Servers are asked whether their model has vision, each through its own API.
func TestVisionIsAskedOfTheServer(t *testing.T) {
	t.Parallel()
	const list = `{"object":"list","data":[{"id":"m","object":"model"}]}`
	for name, c := range map[string]struct {
		answers map[string]string // by path
		vision  string
		models  []string
		want    bool
	}{
		"OpenRouter sees":       {answers: map[string]string{"/v1/models": `{"data":[{"id":"m","architecture":{"input_modalities":["text","image"]}}]}`}, want: true},
		"OpenRouter is blind":   {answers: map[string]string{"/v1/models": `{"data":[{"id":"m","architecture":{"input_modalities":["text"]}}]}`}},
		"Mistral":               {answers: map[string]string{"/v1/models": `{"data":[{"id":"m","capabilities":{"vision":true}}]}`}, want: true},
		"Ollama sees":           {answers: map[string]string{"/v1/models": list, "/api/show": `{"capabilities":["completion","vision"]}`}, want: true},
		"Ollama is blind":       {answers: map[string]string{"/v1/models": list, "/api/show": `{"capabilities":["completion"]}`}},
		"llama.cpp sees":        {answers: map[string]string{"/v1/models": `{"models":[{"capabilities":["completion","multimodal"]}],"data":[{"id":"m"}]}`, "/props": `{"modalities":{"vision":true,"audio":false}}`}, want: true},
		"llama.cpp is blind":    {answers: map[string]string{"/v1/models": list, "/props": `{"modalities":{"vision":false}}`}},
		"vLLM tells nothing":    {answers: map[string]string{"/v1/models": list}},
		"nothing makes sense":   {answers: map[string]string{"/v1/models": "<html>", "/api/show": "[]", "/props": `{"modalities":7}`}},
		"the operator says so":  {answers: map[string]string{}, vision: llm.VisionYes, want: true},
		"the operator says no":  {answers: map[string]string{"/v1/models": `{"data":[{"id":"m","capabilities":{"vision":true}}]}`}, vision: llm.VisionNo},
		"the operator names it": {answers: map[string]string{"/v1/models": list}, models: []string{"m"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answer, ok := c.answers[r.URL.Path]; ok {
					_, _ = io.WriteString(w, answer)
					return
				}
				http.NotFound(w, r)
			}))
			defer server.Close()
			_, choice := mustChoose(t, llm.Config{BaseURL: server.URL + "/v1", Model: "m", Vision: c.vision, VisionModels: c.models}, "")
			if choice.Vision != c.want {
				t.Errorf("vision is %v", choice.Vision)
			}
		})
	}
}

func TestOpenAIModelsAreKnownToHaveVision(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]bool{"": true, "gpt-4o-mini": true, "gpt-4.1": true, "o4-mini": true, "gpt-3.5-turbo": false, "o3-mini": false, "gpt-4o-audio-preview": false} {
		if _, choice := mustChoose(t, llm.Config{APIKey: "key", Model: model}, ""); choice.Vision != want {
			t.Errorf("%q: vision is %v", model, choice.Vision)
		}
	}
}

// A fallback without vision gets the messages without the pictures, which its server would refuse.
func TestFallbackWithoutVisionGetsNoPictures(t *testing.T) {
	t.Parallel()
	server := llmtest.New(t)
	server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Model == "seeing" {
			return llmtest.Answer{Status: http.StatusNotFound}
		}
		return llmtest.Echo(c)
	})
	model, choice := mustChoose(t, llm.Config{BaseURL: server.URL(), Model: "seeing", FallbackModels: []string{"blind"}, VisionModels: []string{"seeing"}, MaxTries: 1}, "")
	_, err := model.Complete(t.Context(), llm.Request{Messages: []llm.Message{
		{Role: "user", Content: "what is this?", Images: []llm.Image{{MediaType: "image/png", Data: []byte("x")}}},
	}}, nil)
	calls := server.Calls()
	if err != nil || !choice.Vision || len(calls) != 2 {
		t.Fatalf("%v, vision %v, %d calls", err, choice.Vision, len(calls))
	}
	seen, unseen := calls[0].Messages[0], calls[1].Messages[0]
	if len(seen.Images) != 1 || len(unseen.Images) != 0 || !strings.Contains(unseen.Content, "what is this?\n[a picture, not shown]") {
		t.Errorf("the models were sent %+v and %+v", seen, unseen)
	}
}
