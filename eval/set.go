package main

import (
	"slices"
	"time"
)

// set is a collection of talks with questions about them.
type set struct {
	name  string
	talks []talk
}

// talk is a conversation between two speakers.
type talk struct {
	name      string
	messages  []message
	questions []question
}

type message struct {
	user bool // written by the first speaker, whom the second one answers
	text string
	at   time.Time
}

// question is a question about a talk, with its evidence.
type question struct {
	text     string
	evidence []int // indexes of the messages that answer it, at least one
}

// size returns the number of messages and of questions of a set.
func (s set) size() (messages, questions int) {
	for _, t := range s.talks {
		messages += len(t.messages)
		questions += len(t.questions)
	}
	return messages, questions
}

// reverse reverses the talks: the newest message becomes the oldest.
func (s set) reverse() {
	for _, t := range s.talks {
		n := len(t.messages)
		slices.Reverse(t.messages)
		for _, q := range t.questions {
			for i, at := range q.evidence {
				q.evidence[i] = n - 1 - at
			}
		}
	}
}
