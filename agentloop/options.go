package agentloop

import (
	"encoding/json"
	"slices"

	"parley/conversation"
	"parley/conversation/metadata"
	"parley/llm"
)

// optionsOf returns what the messages of a run ask of it: the newest that asks for
// anything decides.
func optionsOf(took []conversation.Inbound) conversation.RunOptions {
	for _, in := range slices.Backward(took) {
		if !in.Options.IsZero() {
			return in.Options
		}
	}
	return conversation.RunOptions{}
}

// metadataOf returns the metadata of the answer to some messages: that of the newest
// which has any.
func metadataOf(took []conversation.Inbound) metadata.Object {
	for _, in := range slices.Backward(took) {
		if in.Options.Metadata != "" {
			return in.Options.Metadata
		}
	}
	return ""
}

// modelOptions returns the options of the model's calls in a run, nil when all is as
// configured.
func modelOptions(o conversation.RunOptions) (*llm.Options, error) {
	if o.MaxTokens == 0 && len(o.Parameters) == 0 {
		return nil, nil
	}
	options := &llm.Options{MaxTokens: o.MaxTokens}
	if len(o.Parameters) > 0 {
		if err := json.Unmarshal(o.Parameters, options); err != nil {
			return nil, err
		}
	}
	return options, nil
}

// instructed returns the snapshot with the instructions that messages bring along, as
// the last ones of the conversation. The conversation itself keeps its own.
func instructed(snapshot conversation.Snapshot, took []conversation.Inbound) conversation.Snapshot {
	state := &snapshot.Conversation.State
	if text := optionsOf(took).Instructions; text != "" && !slices.Contains(state.Instructions, text) {
		state.Instructions = append(slices.Clip(state.Instructions), text)
	}
	return snapshot
}
