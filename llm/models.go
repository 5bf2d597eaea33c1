package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// maxModelList is the most bytes of a list of models.
const maxModelList = 8 << 20

// listed is a model in a server's list. OpenAI's API does not have the window sizes.
type listed struct {
	ID            string `json:"id"`
	MaxModelLen   int    `json:"max_model_len"`  // vLLM
	ContextLength int    `json:"context_length"` // OpenRouter
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
		return nil, secretsOf(cfg).hideIn(withoutURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModelList))
	if err != nil {
		return nil, err
	}
	text := secretsOf(cfg).hide(string(body))
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, &statusError{status: resp.StatusCode, body: text})
	}
	var list struct {
		Data []listed `json:"data"`
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
