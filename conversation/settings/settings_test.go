package settings

import (
	"testing"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/storetest"
)

// Two programs choose for a session at the same moment, one its model and the other its agent: both hold. An empty name takes a
// choice back.
func TestChoiceOfAModelLeavesTheAgent(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const key = conversation.Key("api:1")
	large, helper, none := "large", "helper", ""
	for _, step := range []struct {
		change       Change
		model, agent string
	}{
		{Change{Model: &large}, large, ""},
		{Change{Agent: &helper}, large, helper},
		{Change{Model: &none}, "", helper},
		{Change{}, "", helper},
	} {
		if err := Set(t.Context(), s, key, step.change); err != nil {
			t.Fatal(err)
		}
		session, err := catalog.New(s).Session(t.Context(), key)
		if err != nil || session.Model != step.model || session.Agent != step.agent {
			t.Errorf("the session has the model %q and the agent %q, %v; want %q and %q", session.Model, session.Agent, err, step.model, step.agent)
		}
	}
}
