package llm

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// failure is why an attempt failed, and what may help.
type failure struct {
	cause     *Error
	again     bool // the same call may succeed later
	elsewhere bool // another model may succeed
	timeout   bool // the call exceeded Timeout
	stale     bool // a reused connection was closed
}

func (f *failure) Error() string { return f.cause.Error() }

// explain classifies the error of an attempt.
func (c *Client) explain(err error, model string) *failure {
	var refused *statusError
	var redirected *redirectError
	var stale *staleError
	switch {
	case errors.As(err, &refused):
		return refusal(refused, model)
	case errors.As(err, &redirected):
		return &failure{cause: &Error{Kind: KindRejected, Err: c.secrets.hideIn(redirected),
			User: "The model's server has another address than the one that is set up for it."}}
	case errors.Is(err, errFiltered):
		return &failure{cause: &Error{Kind: KindRejected, Err: err,
			User: "The model's provider withheld the answer (content filter)."}}
	case errors.Is(err, errUsedUp):
		return &failure{elsewhere: true, cause: &Error{Kind: KindRejected, Err: err,
			User: "The model reached its length limit before it wrote a word, so there is no answer. Please ask for less at once, or in simpler words."}}
	case errors.Is(err, errTooLong): // a retry would cost as much
		return &failure{elsewhere: true, cause: &Error{Kind: KindRejected, Err: err,
			User: "The model's server sent far more than an answer, and no word of one. Please try again later."}}
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		return &failure{elsewhere: true, cause: &Error{Kind: KindRejected, Err: err,
			User: fmt.Sprintf("The model %q can't use tools in this way of calling it.", model)}}
	}
	return &failure{again: true, elsewhere: true, timeout: errors.Is(err, errTimeout), stale: errors.As(err, &stale),
		cause: &Error{Kind: KindTemporary, Err: c.secrets.hideIn(withoutURL(err)), User: temporarySentence(err)}}
}

func temporarySentence(err error) string {
	switch {
	case errors.Is(err, errTimeout):
		return "The model did not answer in time. Please try again later."
	case errors.Is(err, errIdle), errors.Is(err, errCut):
		return "The model's answer broke off in the middle. Please try again."
	case errors.Is(err, errEmpty):
		return "The model gave an empty answer. Please try again, perhaps in other words."
	case errors.Is(err, errHTML), errors.Is(err, errNotJSON):
		return "The model's server gave an answer that makes no sense. Please try again later."
	}
	return "The model's server can't be reached. Please try again later."
}

// refusal classifies an error that the server has sent. The statuses are those of
// https://platform.openai.com/docs/guides/error-codes, and what other servers use.
func refusal(e *statusError, model string) *failure {
	told := &Error{Status: e.status, RetryAfter: e.retryAfter, Err: e}
	f := &failure{cause: told}
	switch {
	case e.isQuota():
		told.Kind = KindAuth
		told.User = "The account at the model's provider has no credit left."
	case e.isContextSize():
		told.Kind, told.Limit = KindContextSize, e.contextSize()
		told.User = "This conversation is longer than the model can take."
	case e.isUnknownModel():
		told.Kind, f.elsewhere = KindRejected, true
		told.User = fmt.Sprintf("The model's server does not have the model %q.", model)
		if !e.says("model") {
			told.User = "The model's server has nothing at the address that is set up for it."
		}
	case e.status == http.StatusUnauthorized:
		told.Kind = KindAuth
		told.User = "The model's server does not accept the API key."
	case e.status == http.StatusForbidden:
		told.Kind = KindAuth
		told.User = "The model's server does not permit this to the API key's account."
	case e.status == http.StatusTooManyRequests:
		f.again, f.elsewhere = true, true
		told.User = "The model's server is busy. " + comeBack(e.retryAfter)
	case e.isPassing():
		f.again, f.elsewhere = true, true
		told.User = "The model's server is in trouble. " + comeBack(e.retryAfter)
	default:
		told.Kind = KindRejected
		told.User = "The model's server refused this request."
	}
	return f
}

func comeBack(after time.Duration) string {
	switch {
	case after < 2*time.Second:
		return "Please try again in a moment."
	case after < 2*time.Minute:
		return fmt.Sprintf("Please try again in %d seconds.", int(after.Round(time.Second).Seconds()))
	case after < 2*time.Hour:
		return fmt.Sprintf("Please try again in %d minutes.", int(after.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("Please try again in %d hours.", int(after.Round(time.Hour).Hours()))
}

// isPassing reports whether the same request may succeed later: after 408, 409 (a
// conflict within the provider), 425, every 5xx, and errors in a stream, since the
// request had been accepted.
func (e *statusError) isPassing() bool {
	switch e.status {
	case 0, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return true
	}
	return e.status >= 500
}

// isQuota reports whether no call will succeed until somebody pays. A 429 that only
// mentions a quota may be a rate limit: Gemini words them so.
func (e *statusError) isQuota() bool {
	return e.status == http.StatusPaymentRequired ||
		e.says("insufficient_quota", "insufficient balance", "insufficient credits", "billing_hard_limit", "credit balance is too low")
}

// isUnknownModel reports whether the server lacks the model. OpenAI answers 404, or 403
// for a model that the project may not use; OpenRouter answers 400.
func (e *statusError) isUnknownModel() bool {
	return e.status == http.StatusNotFound ||
		(e.status == http.StatusBadRequest || e.status == http.StatusForbidden) &&
			e.says("model_not_found", "not a valid model", "model not found")
}

// isContextSize reports whether the request is too long for the model. There is no
// common code for this, so it looks at the words. A rate limit on tokens is worded
// alike, but has its own status.
func (e *statusError) isContextSize() bool {
	switch e.status {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false
	case http.StatusRequestEntityTooLarge:
		return true
	}
	return e.says(
		"context_length_exceeded",            // OpenAI, and servers that copy its codes
		"maximum length 10485760",            // OpenAI, of a single message
		"maximum context length",             // OpenAI, vLLM, OpenRouter, DeepSeek
		"exceeds the context window",         // OpenAI
		"reduce the length of",               // OpenAI, Groq, vLLM
		"model's context length",             // vLLM from 0.16
		"maximum model length",               // vLLM, older
		"too long to fit into the model",     // vLLM, older
		"exceed_context_size",                // llama.cpp
		"available context size",             // llama.cpp
		"exceed context window",              // llama-cpp-python
		"context size has been exceeded",     // LM Studio
		"greater than the context length",    // LM Studio
		"exceeds the context length",         // Ollama
		"exceeds maximum context",            // Ollama, SGLang
		"longer than the model's context",    // SGLang
		"prompt is too long",                 // Anthropic
		"exceed context limit",               // Anthropic
		"request_too_large",                  // Anthropic
		"input is too long",                  // Bedrock
		"input token count",                  // Gemini
		"maximum prompt length",              // xAI
		"must have less than",                // TGI: `inputs` must have less than 1024 tokens
		"`inputs` tokens + `max_new_tokens`", // TGI
		"too large for model with",           // Mistral: Prompt contains 40000 tokens ..., too large for model with 32768 maximum context length
		"context window exceeds limit",       // MiniMax
		"exceeded model token limit",         // Moonshot
		"range of input length should be",    // Alibaba
		"exceeds max length",                 // Zhipu
		"exceeds the maximum length",         // Volcengine
		"maximum sequence length",            // SambaNova
		"maximum input length",               // TensorRT-LLM
		"max_input_len",                      // TensorRT-LLM
		"too many tokens",                    // Cohere
		"prompt token count",                 // GitHub Copilot: prompt token count of 10 exceeds the limit of 5
		"tokens_limit_reached",               // GitHub Models
		"loaded with context length",         // LM Studio, when the first message alone is too long
		"context length exceeded",
		"context window exceeded",
	)
}

// contextSizes finds how many tokens a model takes in the words by which a server
// refuses a request as too long. These also name the size of the request, so only
// numbers are read that stand where servers name the limit.
var contextSizes = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`maximum (?:context|prompt|model|sequence|input) length(?: is|:| of)? (\d+)`,                // OpenAI, vLLM, xAI, Fireworks
	`context length (?:is only|of only|is) (\d+)`,                                               // vLLM, LM Studio
	`tokens > (\d+) maximum`,                                                                    // Anthropic
	`(?:maximum number of tokens allowed|available context size|exceeds the limit of) \(?(\d+)`, // Gemini, llama.cpp, GitHub
	`(\d+) maximum context length`,                                                              // Mistral
	`"n_ctx": ?(\d+)`,                                                                           // llama.cpp
	`model token limit: (\d+)`,                                                                  // Moonshot
	`must have less than (\d+) tokens`,                                                          // TGI
	`max size: (\d+) tokens`,                                                                    // GitHub Models
}, "|"))

// contextSize returns how many tokens the model takes, as the server says, or 0.
func (e *statusError) contextSize() int {
	for i, number := range contextSizes.FindStringSubmatch(e.body) {
		if i == 0 {
			continue // the whole match
		}
		if n, err := strconv.Atoi(number); err == nil && n > 0 {
			return n
		}
	}
	return 0
}
