package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxModelList is the most bytes of a list of models.
const maxModelList = 8 << 20

// listed is a model in a server's list. OpenAI's API does not have the window sizes.
type listed struct {
	ID            string `json:"id"`
	MaxModelLen   int    `json:"max_model_len"`  // vLLM
	ContextLength int    `json:"context_length"` // OpenRouter

	Architecture struct {
		InputModalities  []string `json:"input_modalities"`
		OutputModalities []string `json:"output_modalities"`
	} `json:"architecture"` // OpenRouter
	Capabilities capabilities `json:"capabilities"`
}

// capabilities are what Mistral says of a model. Other servers have something else of
// that name.
type capabilities struct{ Vision *bool }

func (c *capabilities) UnmarshalJSON(raw []byte) error {
	var is struct {
		Vision *bool `json:"vision"`
	}
	if json.Unmarshal(raw, &is) == nil {
		c.Vision = is.Vision
	}
	return nil
}

// window returns how many tokens the model takes, 0 when the server does not say.
func (m listed) window() int { return max(m.MaxModelLen, m.ContextLength) }

// listModels returns the models of a server. go-openai's own function drops the window
// sizes.
func listModels(ctx context.Context, cfg Config) ([]listed, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cfg.BaseURL, "/")+"/models", nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	if cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, secretsOf(cfg).HideIn(withoutURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModelList))
	if err != nil {
		return nil, err
	}
	text := secretsOf(cfg).Hide(string(body))
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, &statusError{status: resp.StatusCode, body: text})
	}
	var list struct {
		Data []listed `json:"data"`
	}
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		return nil, errHTML
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: %s", errNotJSON, excerpt(text))
	}
	return list.Data, nil
}

// firstChat returns the model of that name, or, for "", the first model that is not
// known to be for something else than chat.
func firstChat(models []listed, name string) (listed, bool) {
	for _, m := range models {
		switch {
		case m.ID == "":
		case name != "" && (m.ID == name || m.ID == name+":latest"): // Ollama's way of naming
			return m, true
		case name == "" && canChat(m.ID):
			return m, true
		}
	}
	return listed{}, false
}

func canChat(id string) bool {
	id = strings.ToLower(id)
	for _, other := range []string{"embed", "bge-", "minilm", "rerank", "whisper", "tts"} {
		if strings.Contains(id, other) {
			return false
		}
	}
	return true
}

// server is a local server that a probe has found.
type server struct {
	baseURL string
	model   listed
}

// probe asks all addresses at once. It returns the first server, in their order, that
// has the model of that name or, for "", one that can chat.
func probe(ctx context.Context, addresses []string, name string) (server, bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel() // ends the requests that are not needed any more
	answers := make([]chan []listed, len(addresses))
	for i, address := range addresses {
		answer := make(chan []listed, 1)
		answers[i] = answer
		asking.Go(func() {
			models, _ := listModels(ctx, Config{BaseURL: address}) // an error means that no usable server is there
			answer <- models
		})
	}
	for i, answer := range answers {
		if model, ok := firstChat(<-answer, name); ok {
			return server{baseURL: addresses[i], model: model}, true
		}
	}
	return server{}, false
}

// modelsTimeout is how long a server may take to list its models for an error.
const modelsTimeout = 3 * time.Second

// modelsInWords returns a clause with the models that the server has, "" where it does
// not list them.
func (t *target) modelsInWords(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	models, err := listModels(ctx, t.cfg)
	if err != nil {
		return ""
	}
	return namesInWords(models)
}

// namesInWords returns a clause with the first names of a list of models.
func namesInWords(models []listed) string {
	const most = 12
	var names []string
	for _, m := range models {
		if m.ID != "" && canChat(m.ID) {
			names = append(names, printable(m.ID))
		}
	}
	switch more := len(names) - most; {
	case len(names) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf(", which are %s and %d more", strings.Join(names[:most], ", "), more)
	}
	return ", which are " + strings.Join(names, ", ")
}

// Check asks the server for its models. It returns an *Error when calls are going to
// fail: the server can't be reached, it is no API, it does not accept the key, or it
// does not list the model. A server that lists no models is not at fault.
func (c *Client) Check(ctx context.Context) error { return c.chain[0].check(ctx) }

func (t *target) check(ctx context.Context) error {
	models, err := listModels(ctx, t.cfg)
	if err != nil {
		return t.unlisted(err)
	}
	_, found := firstChat(models, t.cfg.Model)
	if found || namesInWords(models) == "" || slices.ContainsFunc(models, func(m listed) bool { return m.isNamed(t.cfg.Model) }) {
		return nil
	}
	missing := &Error{Kind: KindUnknownModel}
	t.word(missing, t.cfg.Model)
	missing.Operator = fmt.Sprintf("the model %q is not among those that %s lists", printable(t.cfg.Model), t.host()) + namesInWords(models) + "; set model in " + t.cfg.Section + " to one of them"
	return missing
}

// isNamed reports whether a name may mean the model: Gemini lists it below "models/",
// and OpenRouter takes variants behind a colon.
func (m listed) isNamed(name string) bool {
	base, _, _ := strings.Cut(name, ":")
	return slices.Contains([]string{name, base}, strings.TrimPrefix(m.ID, "models/"))
}

// unlisted returns the error of a server that did not list its models, nil where that
// says nothing about calls.
func (t *target) unlisted(err error) error {
	failed := t.explain(err, t.cfg.Model, false).cause
	var refused *statusError
	switch {
	case errors.As(err, &refused) && failed.Kind == KindNotAPI && !refused.isPage():
		return nil // it has no list
	case failed.Kind == KindNotAPI, failed.Kind == KindUnauthorized, failed.Kind == KindUnreachable, failed.Kind == KindNoCredit:
		return failed
	}
	return nil
}
