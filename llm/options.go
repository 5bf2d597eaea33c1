package llm

import "encoding/json"

// Options are parameters of one call, in place of those of the configuration. They
// are passed on as they are: what a value means, and whether the model takes it, is
// for the server to say. The fields are those of
// https://platform.openai.com/docs/api-reference/chat/create.
type Options struct {
	Temperature       *float64        `json:"temperature,omitempty"`
	TopP              *float64        `json:"top_p,omitempty"`
	PresencePenalty   *float64        `json:"presence_penalty,omitempty"`
	FrequencyPenalty  *float64        `json:"frequency_penalty,omitempty"`
	Seed              *int64          `json:"seed,omitempty"`
	Stop              json.RawMessage `json:"stop,omitempty"` // a text, or a list of texts
	ResponseFormat    json.RawMessage `json:"response_format,omitempty"`
	ToolChoice        json.RawMessage `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
	ReasoningEffort   string          `json:"reasoning_effort,omitempty"`

	MaxTokens int `json:"-"` // most tokens of the answer; 0 = as configured. Sent as max_tokens or max_completion_tokens, as the server wants it
}

// apply puts the options into a request, in place of the configured ones.
// completionTokens says that the server knows max_completion_tokens, not max_tokens.
func (o *Options) apply(wire *wireRequest, completionTokens bool) {
	if o.Temperature != nil {
		wire.Temperature = 0
	}
	if o.ReasoningEffort != "" {
		wire.ReasoningEffort = ""
	}
	switch {
	case o.MaxTokens <= 0:
	case completionTokens:
		wire.MaxCompletionTokens = o.MaxTokens
	default:
		//lint:ignore SA1019 servers other than OpenAI know only max_tokens
		wire.MaxTokens = o.MaxTokens
	}
	fields, err := json.Marshal(o)
	if err != nil { // a field is not JSON; whoever makes Options has read it as such
		return
	}
	if fields = fields[1 : len(fields)-1]; len(fields) > 0 {
		wire.options = append([]byte{','}, fields...)
	}
}
