package config

import (
	"time"

	"parley/conversation/state"
)

// What a session spans, as the configuration spells it.
const (
	ScopePlace = "place" // one place
	ScopeUser  = "user"  // the private chats of one person, wherever they are; other places as with ScopePlace
)

// Conversation is the [conversation] section.
type Conversation struct {
	// Scope is whether the private chats of a person whose accounts are linked are
	// one session: ScopeUser, or ScopePlace. Default ScopePlace.
	Scope string `toml:"scope" oneof:"place user"`
	// MaxTokens is the most that a model is sent of one conversation, system
	// prompt and waiting messages included. Default 32000.
	MaxTokens int `toml:"max_tokens" min:"500"`
	// TokenStrategy is what becomes of the part of a conversation that MaxTokens has
	// no room for: sliding_window leaves it out, summarization shows a summary of
	// it that the model makes. Either way the newest KeepRecentMessages are shown, as
	// far as there is room. Default sliding_window, and 20.
	TokenStrategy      string `toml:"token_strategy" oneof:"sliding_window summarization"`
	KeepRecentMessages int    `toml:"keep_recent_messages" min:"2" max:"10000"`
	// StateBudget is how many tokens the session state may have, which the model is
	// told in every run; 0 = it is told none. Default 800.
	StateBudget int `toml:"state_budget" min:"0" max:"100000"`
	// HintPhrases are words, beside the built-in ones, by which a message points at
	// what was said long ago: the model is then reminded that it can look that up.
	// Default none.
	HintPhrases []string `toml:"hint_phrases"`
	// SessionExpiration is how long a conversation may go unused before the next
	// message begins a new one; the old one is kept. 0 = for ever. Default 720h.
	SessionExpiration time.Duration `toml:"session_expiration" min:"0"`
	// MaxMessages is how many messages a conversation may have before the next
	// message begins a new one, tool calls and results among them; the old one is
	// kept. 0 = any number. Default 0.
	MaxMessages int `toml:"max_messages" min:"0"`
	// CarryRules has a new conversation begin with the rules of the one before it.
	// Default true.
	CarryRules bool `toml:"carry_rules"`
	// CarrySummary has a conversation that follows one that expired, or reached
	// MaxMessages, open with a short summary of it, which the model makes. Default
	// false.
	CarrySummary bool `toml:"carry_summary"`
	// GiveUpAfter is how long messages wait for a model that can't be called before the people who wrote them are
	// told that there is no answer. 0 = they are told at once. Default 24h.
	GiveUpAfter time.Duration `toml:"give_up_after" min:"0"`
	// Retention is how long a conversation that is over is kept after its last
	// use. 0 = for ever. Default 0.
	Retention time.Duration `toml:"retention" min:"0"`
	// CleanupInterval is how often what is no longer kept is deleted. Default 1h.
	CleanupInterval time.Duration `toml:"cleanup_interval" min:"1s"`
}

// defaultConversation returns what holds when the section says nothing.
func defaultConversation() Conversation {
	return Conversation{
		Scope:              ScopePlace,
		MaxTokens:          32_000,
		TokenStrategy:      "sliding_window",
		KeepRecentMessages: 20,
		StateBudget:        800,
		SessionExpiration:  720 * time.Hour,
		CarryRules:         true,
		GiveUpAfter:        24 * time.Hour,
		CleanupInterval:    time.Hour,
	}
}

// Limits returns when a conversation is over, and what goes over to the next one.
func (c Conversation) Limits() state.Limits {
	return state.Limits{Idle: c.SessionExpiration, Messages: int64(c.MaxMessages), Carry: state.Carry{Rules: c.CarryRules}}
}
