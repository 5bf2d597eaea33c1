package command

import "context"

var modelCommand = Command{
	Name: "model", Arguments: "[name|default]", Description: "Show or choose the model that answers here",
	Options: []Option{{Name: "name", Description: "The name of a model, or default for the usual one; without it, the list is shown"}},
	Run:     chooseModel,
}

func chooseModel(_ context.Context, env Env, r Request) (Result, error) {
	c := choosing{command: "model", thing: "model", list: env.Models, now: env.Model, usual: env.UsualModel, chosen: r.Snapshot.Conversation.Model}
	result, chosen := c.run(r.Arguments)
	result.Effect.Model = chosen
	return result, nil
}
