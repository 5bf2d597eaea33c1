package llm

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

// failure is why an attempt failed, and what may help.
type failure struct {
	cause     *Error
	again     bool // the same call may succeed later
	elsewhere bool // another model may succeed
	account   bool // with elsewhere: only a model of another account may succeed
	timeout   bool // the call exceeded Timeout
	stale     bool // the server had closed the connection that the request reused
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// explain classifies the error of an attempt. begun says that a part of the answer had
// arrived.
func (t *target) explain(err error, model string, begun bool) *failure {
	var refused *statusError
	if errors.As(err, &refused) {
		return t.refusal(refused, model)
	}
	f := &failure{cause: &Error{Err: t.secrets.HideIn(withoutURL(err))}, elsewhere: true}
	var redirected *redirectError
	var stale *staleError
	switch {
	case errors.As(err, &redirected):
		f.elsewhere, f.cause.Kind = false, KindNotAPI
	case errors.Is(err, errFiltered):
		f.elsewhere, f.cause.Kind = false, KindWithheld
	case errors.Is(err, errUsedUp), errors.Is(err, errTooLong): // a retry would cost as much
		f.cause.Kind = KindNoAnswer
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		f.cause.Kind = KindRefused
	default:
		f.again, f.timeout, f.stale = true, errors.Is(err, errTimeout), errors.As(err, &stale)
		f.cause.Kind = passingKind(err, begun)
	}
	t.word(f.cause, model)
	return f
}

// passingKind returns the kind of a failure of which the server has said nothing.
func passingKind(err error, begun bool) Kind {
	switch {
	case errors.Is(err, errTimeout):
		return KindTimeout
	case errors.Is(err, errEmpty):
		return KindNoAnswer
	case errors.Is(err, errHTML):
		return KindNotAPI
	case begun, errors.Is(err, errIdle), errors.Is(err, errCut):
		return KindCutOff
	case errors.Is(err, errNotJSON):
		return KindUnavailable
	}
	return KindUnreachable
}

// refusal classifies an error that the server has sent. The statuses are those of
// https://platform.openai.com/docs/guides/error-codes, and what other servers use.
func (t *target) refusal(e *statusError, model string) *failure {
	f := &failure{cause: &Error{Status: e.status, RetryAfter: e.retryAfter, Err: e}}
	cause := f.cause
	switch {
	case e.isQuota():
		cause.Kind, f.elsewhere, f.account = KindNoCredit, true, true
	case e.isContextSize():
		cause.Kind, cause.Limit = KindTooLong, e.contextSize()
	case e.isUnknownModel():
		cause.Kind, f.elsewhere = KindUnknownModel, true
	case e.status == http.StatusNotFound, e.status == http.StatusMethodNotAllowed:
		cause.Kind, f.elsewhere = KindNotAPI, true
	case e.status == http.StatusUnauthorized:
		cause.Kind, f.elsewhere, f.account = KindUnauthorized, true, true
	case e.status == http.StatusForbidden:
		cause.Kind = KindUnauthorized
	case e.isBusy():
		cause.Kind, f.again, f.elsewhere = KindBusy, true, true
	case e.isPassing():
		cause.Kind, f.again, f.elsewhere = KindUnavailable, true, true
	default:
		cause.Kind = KindRefused
	}
	t.word(cause, model)
	return f
}

// isBusy reports whether the server takes no more calls for now. Anthropic answers 529;
// others 503 with the time after which they take calls again.
func (e *statusError) isBusy() bool {
	switch e.status {
	case http.StatusTooManyRequests, 529:
		return true
	}
	return e.status == http.StatusServiceUnavailable && e.retryAfter > 0
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
// for a model that the project may not use; OpenRouter answers 400. A 404 that speaks of
// no model, or is a web page, means that the address is wrong.
func (e *statusError) isUnknownModel() bool {
	switch e.status {
	case http.StatusNotFound:
		return e.says("model") && !e.isPage()
	case http.StatusBadRequest, http.StatusForbidden:
		return e.says("model_not_found", "not a valid model", "model not found", "invalid model")
	}
	return false
}

// isPage reports whether the server answered with a web page.
func (e *statusError) isPage() bool { return strings.HasPrefix(strings.TrimSpace(e.body), "<") }

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
