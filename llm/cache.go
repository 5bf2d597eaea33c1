package llm

import (
	"net/url"
	"strings"
)

// Servers cache the prompt of a call, and reuse it when the next call begins with the same tokens.
// Some need hints in the request for that.

// The values of Config.PromptCache.
const (
	PromptCacheAuto = "auto" // requests carry the hints that the server's API documents
	PromptCacheOff  = "off"  // requests carry no hints
)

// cacheHelp is the kind of hint by which a server finds a cached prompt.
type cacheHelp int

const (
	cacheAlone cacheHelp = iota // no hint: the server needs none, or is not known to take one
	// cacheByKey sends prompt_cache_key, by which calls with the same beginning reach the
	// same machine: https://platform.openai.com/docs/guides/prompt-caching
	cacheByKey
	// cacheByMarks marks the ends of the parts that will be sent again:
	// https://openrouter.ai/docs/features/prompt-caching#anthropic-claude
	cacheByMarks
)

// cacheHelpOf returns the kind of hint for a server.
func cacheHelpOf(cfg Config, model string) cacheHelp {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil || cfg.PromptCache == PromptCacheOff:
		return cacheAlone
	case isOpenAI(cfg.BaseURL):
		return cacheByKey
	case u.Hostname() == "openrouter.ai" && strings.HasPrefix(model, "anthropic/"):
		return cacheByMarks
	}
	return cacheAlone
}

// markedPart is a text with a mark: what the call holds up to it will be sent again.
type markedPart struct {
	Type  string      `json:"type"`
	Text  string      `json:"text"`
	Cache cacheMarker `json:"cache_control"`
}

type cacheMarker struct {
	Type string `json:"type"`
}

// newMarkedContent returns a text as a content with a mark.
func newMarkedContent(text string) []markedPart {
	return []markedPart{{"text", clean(text), cacheMarker{"ephemeral"}}}
}

// marksOf returns the indexes of the messages to mark: the system prompt, the newest message of the
// history, and during tool calls the question. The question is marked by itself since its note changes
// in the next run. Those are three of the four marks that Anthropic takes.
func marksOf(list []Message) (marked []int) {
	question := len(list)
	for i := range list {
		if list[i].Note != "" {
			question = i
		}
	}
	if question == len(list) { // without a note all is history but the newest message
		question--
	}
	if len(list) > 0 && list[0].Role == "system" {
		marked = append(marked, 0)
	}
	for i := question - 1; i > 0; i-- {
		if list[i].takesMark() {
			marked = append(marked, i)
			break
		}
	}
	if question > 0 && question < len(list)-1 && list[question].takesMark() {
		marked = append(marked, question)
	}
	return marked
}

// takesMark reports whether a message is a text that can be marked. A text of white
// space alone can't.
func (m *Message) takesMark() bool {
	return m.Role != roleTool && len(m.Images) == 0 && strings.TrimSpace(m.Text()) != ""
}
