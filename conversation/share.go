package conversation

import (
	"encoding/json"

	"parley/conversation/internal/db"
	"parley/conversation/steps"
)

// Share says for whose messages a part of a run's calls was made.
type Share struct {
	Sender Sender
	Weight int64 // tokens of the messages of the sender that the run showed to the model, at least 1
}

// Split returns the parts of n by weights, which are at least 1. Together they are n.
func Split(n int64, weights []int64) []int64 {
	all, before, given := int64(0), int64(0), int64(0)
	for _, w := range weights {
		all += w
	}
	parts := make([]int64, len(weights))
	for i, w := range weights {
		before += w
		parts[i] = int64(float64(n)*(float64(before)/float64(all))+0.5) - given
		given += parts[i]
	}
	return parts
}

// SplitStep returns the part of a model call for each share.
func SplitStep(s steps.Step, shares []Share) []steps.Step {
	weights := make([]int64, len(shares))
	for i, share := range shares {
		weights[i] = share.Weight
	}
	prompt, cached, completion := Split(int64(s.Prompt), weights), Split(int64(s.Cached), weights), Split(int64(s.Completion), weights)
	parts := make([]steps.Step, len(shares))
	for i := range shares {
		parts[i] = s
		parts[i].Prompt, parts[i].Cached, parts[i].Completion = int(prompt[i]), int(cached[i]), int(completion[i])
		if s.Cost != nil {
			parts[i].Cost = &Split(*s.Cost, weights)[i]
		}
	}
	return parts
}

// personPart is the part of one person in a run, as the column people of its row has it.
type personPart struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Prompt     int    `json:"in"`
	Cached     int    `json:"cached"`
	Completion int    `json:"out"`
	Cost       *int64 `json:"cost"`
}

// people returns the parts of the people in a run and its cost, null where the run answers one person.
func (r Run) people(cost *int64) ([]byte, error) {
	if len(r.Shares) < 2 {
		return nil, nil
	}
	var parts []personPart
	for i, s := range SplitStep(steps.Step{Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion, Cost: cost}, r.Shares) {
		who := r.Shares[i].Sender
		parts = append(parts, personPart{db.Text(who.ID), db.Text(who.Name), s.Prompt, s.Cached, s.Completion, s.Cost})
	}
	return json.Marshal(parts)
}
