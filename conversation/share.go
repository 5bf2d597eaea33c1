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

// Split returns the parts of n for each share. Together they are n.
func Split(n int64, shares []Share) []int64 {
	all, before, given := int64(0), int64(0), int64(0)
	for _, s := range shares {
		all += s.Weight
	}
	parts := make([]int64, len(shares))
	for i, s := range shares {
		before += s.Weight
		parts[i] = int64(float64(n)*(float64(before)/float64(all))+0.5) - given
		given += parts[i]
	}
	return parts
}

// personPart is the part of one person in a run, as the column people of its row has it.
type personPart struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Prompt     int64  `json:"in"`
	Cached     int64  `json:"cached"`
	Completion int64  `json:"out"`
	Cost       *int64 `json:"cost"`
}

// people returns the parts of the people in a run and its cost, null where the run answers one person.
func (r Run) people(cost *int64) ([]byte, error) {
	if len(r.Shares) < 2 {
		return nil, nil
	}
	prompt, cached, completion := Split(int64(r.Prompt), r.Shares), Split(int64(r.Cached), r.Shares), Split(int64(r.Completion), r.Shares)
	parts := make([]personPart, len(r.Shares))
	for i, s := range r.Shares {
		parts[i] = personPart{db.Text(s.Sender.ID), db.Text(s.Sender.Name), prompt[i], cached[i], completion[i], nil}
		if cost != nil {
			parts[i].Cost = &Split(*cost, r.Shares)[i]
		}
	}
	return json.Marshal(parts)
}

// SplitStep returns the part of a model call for each share.
func SplitStep(s steps.Step, shares []Share) []steps.Step {
	prompt, cached, completion := Split(int64(s.Prompt), shares), Split(int64(s.Cached), shares), Split(int64(s.Completion), shares)
	parts := make([]steps.Step, len(shares))
	for i := range shares {
		parts[i] = s
		parts[i].Prompt, parts[i].Cached, parts[i].Completion = int(prompt[i]), int(cached[i]), int(completion[i])
		if s.Cost != nil {
			parts[i].Cost = &Split(*s.Cost, shares)[i]
		}
	}
	return parts
}
