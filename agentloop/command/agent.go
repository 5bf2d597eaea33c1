package command

import (
	"cmp"
	"context"
)

var agentCommand = Command{
	Name: "agent", Arguments: "[name|default]", Description: "Show or choose the agent that answers here",
	Options: []Option{{Name: "name", Description: "The name of an agent, or default for the usual one; without it, the list is shown"}},
	Run:     chooseAgent,
}

func chooseAgent(_ context.Context, env Env, r Request) (Result, error) {
	c := choosing{command: "agent", thing: "agent", list: env.Agents, now: cmp.Or(env.Agent, "the usual assistant"), chosen: r.Snapshot.Conversation.Agent}
	result, chosen := c.run(r.Arguments)
	result.Effect.Agent = chosen
	return result, nil
}
