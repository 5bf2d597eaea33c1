package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"parley/llm"
)

// request is the body of POST /chat/completions, as far as it is checked
// (https://platform.openai.com/docs/api-reference/chat/create). Other fields
// are refused as unknown.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	N                   *int            `json:"n"`
	Stop                any             `json:"stop"`
	Seed                *int            `json:"seed"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	ToolChoice          any             `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	ResponseFormat      *responseFormat `json:"response_format"`
	User                string          `json:"user"`
	PromptCacheKey      string          `json:"prompt_cache_key"`
	Modalities          []string        `json:"modalities"`
}

type responseFormat struct {
	Type       string          `json:"type"`
	JSONSchema json.RawMessage `json:"json_schema"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Refusal    *string    `json:"refusal"`
	Name       string     `json:"name"`
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID *string    `json:"tool_call_id"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

// content is a string, null, or a list of parts: texts and images.
type content struct {
	text   string
	images []llm.Image
	wrong  string // what is wrong with a part, "" for nothing
	given  bool   // the content is neither missing nor null
	marks  int    // number of parts with cache_control
}

func (c *content) UnmarshalJSON(raw []byte) error {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	c.given = true
	switch {
	case raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0: // as most are, and there are many
		c.text = string(raw[1 : len(raw)-1])
		return nil
	case raw[0] != '[':
		return json.Unmarshal(raw, &c.text)
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Cache *struct {
			Type string `json:"type"`
		} `json:"cache_control"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Cache != nil {
			c.marks++
			switch {
			case part.Cache.Type != "ephemeral":
				c.wrong = fmt.Sprintf("cache_control.type: Input should be 'ephemeral', got '%s'", part.Cache.Type)
			case part.Type == "text" && strings.TrimSpace(part.Text) == "":
				c.wrong = "cache_control cannot be set for empty text blocks"
			}
		}
		switch part.Type {
		case "text":
			c.text += part.Text
		case "image_url":
			c.addImage(part.Image.URL)
		default:
			c.wrong = fmt.Sprintf("Invalid value: '%s'. Supported values are: 'text' and 'image_url'.", part.Type)
		}
	}
	return nil
}

// addImage reads a data URL, the one form in which a private picture can be
// sent, of the types that OpenAI takes:
// https://platform.openai.com/docs/guides/images-vision#image-input-requirements
func (c *content) addImage(url string) {
	head, encoded, _ := strings.Cut(url, ";base64,")
	mediaType, isData := strings.CutPrefix(head, "data:")
	data, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case !isData || err != nil || len(data) == 0:
		c.wrong = "Invalid base64 image_url."
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/webp", "image/gif"}, mediaType):
		c.wrong = "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
	default:
		c.images = append(c.images, llm.Image{MediaType: mediaType, Data: data})
	}
}

// call returns the request as a test reads it.
func (r *request) call(header http.Header) Call {
	c := Call{
		Model:       r.Model,
		Messages:    make([]llm.Message, len(r.Messages)),
		Stream:      r.Stream,
		Usage:       !r.Stream || r.StreamOptions != nil && r.StreamOptions.IncludeUsage,
		Temperature: r.Temperature,
		MaxTokens:   max(r.MaxTokens, r.MaxCompletionTokens),
		Header:      header,

		TopP: r.TopP, Stop: r.Stop, Seed: r.Seed, ToolChoice: r.ToolChoice,

		CacheKey: r.PromptCacheKey,
	}
	for i := range r.Messages {
		if r.Messages[i].Content.marks > 0 {
			c.Marked = append(c.Marked, i)
		}
	}
	if r.ResponseFormat != nil {
		c.ResponseFormat = r.ResponseFormat.Type
	}
	for i, m := range r.Messages {
		c.Messages[i] = m.plain()
	}
	for _, t := range r.Tools {
		c.Tools = append(c.Tools, llm.Tool{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters, Strict: t.Function.Strict,
		})
	}
	return c
}

func (m *message) plain() llm.Message {
	plain := llm.Message{Role: m.Role, Content: m.Content.text, Images: m.Content.images, Name: m.Name}
	if m.Role == "user" {
		plain.Note, plain.Content = llm.SplitNote(m.Content.text)
	}
	if m.ToolCallID != nil {
		plain.ToolCallID = *m.ToolCallID
	}
	for _, call := range m.ToolCalls {
		plain.ToolCalls = append(plain.ToolCalls, llm.ToolCall{
			ID: call.ID, Name: call.Function.Name, Arguments: *call.Function.Arguments,
		})
	}
	return plain
}
