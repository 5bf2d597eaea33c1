package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The values of Config.Vision.
const (
	VisionYes  = "true"
	VisionNo   = "false"
	VisionAuto = "auto"
)

// visionTimeout is how long the server may take at the start to list which models take images.
const visionTimeout = 3 * time.Second

// settleVision finds out which of the configured models take pictures, and lists the others in
// cfg.Blind. A model that neither its server nor the configuration says it of takes none.
func (c *chooser) settleVision(ctx context.Context) {
	names := append([]string{c.cfg.Model}, c.cfg.FallbackModels...)
	switch c.cfg.Vision {
	case VisionYes:
		return
	case VisionNo:
		c.cfg.Blind = names
		return
	}
	ctx, cancel := context.WithTimeout(ctx, visionTimeout)
	defer cancel()
	var all []listed // nil: not asked for yet
	for _, name := range names {
		sees := slices.Contains(c.cfg.VisionModels, name)
		known := sees
		if !known && isOpenAI(c.cfg.BaseURL) {
			sees, known = openAISees.MatchString(name) && !openAIBlind.MatchString(name), true
		}
		if !known {
			if all == nil {
				all, _ = listModels(ctx, c.cfg) // a server without a list tells nothing
			}
			if m, found := firstChat(all, name); found {
				sees, known = m.sees()
				if slices.Contains(m.Architecture.OutputModalities, "image") {
					c.cfg.Draws = append(c.cfg.Draws, name)
				}
			}
		}
		if !known {
			sees, known = c.askAlone(ctx, name)
		}
		if !known && name == c.cfg.Model {
			c.log.Info("pictures not shown to the model", "model", name, "reason", "its server does not say that it takes images; llm.vision = true shows them")
		}
		if !sees {
			c.cfg.Blind = append(c.cfg.Blind, name)
		}
	}
}

// openAISees matches OpenAI's models that take images, and openAIBlind those of the
// same names that do not: https://platform.openai.com/docs/models
var (
	openAISees  = regexp.MustCompile(`^(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-4-turbo|gpt-[5-9]|chatgpt-4o|o1|o3|o4)`)
	openAIBlind = regexp.MustCompile(`^(o1-mini|o1-preview|o3-mini)|audio|realtime|transcribe|tts|search`)
)

// sees reports whether a model in a server's list takes pictures. known is false when
// the list does not say.
func (m listed) sees() (sees, known bool) {
	switch {
	case m.Architecture.InputModalities != nil: // OpenRouter
		return slices.Contains(m.Architecture.InputModalities, "image"), true
	case m.Capabilities.Vision != nil: // Mistral
		return *m.Capabilities.Vision, true
	}
	return false, false
}

// askAlone asks local servers in ways of their own whether a model takes pictures:
// Ollama (https://docs.ollama.com/api-reference/show-model-details), then llama.cpp
// (https://github.com/ggml-org/llama.cpp/tree/master/tools/server, GET /props).
func (c *chooser) askAlone(ctx context.Context, model string) (sees, known bool) {
	root, isVersioned := strings.CutSuffix(strings.TrimRight(c.cfg.BaseURL, "/"), "/v1")
	if !isVersioned {
		return false, false
	}
	var ollama struct {
		Capabilities []string `json:"capabilities"`
	}
	question, _ := json.Marshal(map[string]string{"model": model}) // a text: cannot fail
	if c.askServer(ctx, http.MethodPost, root+"/api/show", question, &ollama) && ollama.Capabilities != nil {
		return slices.Contains(ollama.Capabilities, "vision"), true
	}
	var llamacpp struct {
		Modalities *struct {
			Vision bool `json:"vision"`
		} `json:"modalities"`
	}
	if c.askServer(ctx, http.MethodGet, root+"/props", nil, &llamacpp) && llamacpp.Modalities != nil {
		return llamacpp.Modalities.Vision, true
	}
	return false, false
}

// askServer makes a request of the model's server and reports whether it was answered
// with JSON.
func (c *chooser) askServer(ctx context.Context, method, address string, body []byte, answer any) bool {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return false
	}
	if c.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxModelList))
	return err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(text, answer) == nil
}

// blindly returns messages without their pictures, for a model that takes none.
func blindly(messages []Message) []Message {
	messages = slices.Clone(messages)
	for i, m := range messages {
		if len(m.Images) == 0 {
			continue
		}
		line := "[a picture, not shown]"
		if n := len(m.Images); n > 1 {
			line = strings.TrimSpace(strings.Repeat(line+"\n", n))
		}
		if m.Content != "" {
			line = m.Content + "\n" + line
		}
		messages[i].Content, messages[i].Images = line, nil
	}
	return messages
}
