package agentloop

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"parley/tools"
)

// library is a house whose model can look things up.
func library(t *testing.T, change func(*Parts)) *house {
	return newHouse(t, func(p *Parts) {
		var err error
		p.Tools, err = tools.NewRegistry(tools.SessionState(), tools.Tool{
			Name: tools.RecallName, Parameters: json.RawMessage(`{"type":"object"}`),
			Call: func(context.Context, json.RawMessage) (string, error) { return "nothing found", nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(p)
		}
	})
}

func TestMessagesThatPointBackRemindTheModelOfRecall(t *testing.T) {
	h := library(t, func(p *Parts) { p.HintPhrases = []string{"The  Usual"} })
	for text, hinted := range map[string]bool{
		"As we discussed, use the blue one":       true,
		"It’s like you said":                      true,
		"Weißt du noch, wie das hieß?":            true,
		"помнишь про лодку?":                      true,
		"我们之前说的那个":                                true,
		"さっきの話だけど":                                true,
		"아까 말한 것":                                 true,
		"the usual, please":                       true,
		"hello there":                             false,
		"thus you saidth nothing":                 false,
		"unusual":                                 false,
		strings.Repeat("log ", 600) + "last time": false,
		"": false,
	} {
		h.ask(room, text)
		if told := strings.Contains(h.system(), "may point at something"); told != hinted {
			t.Errorf("%q: hinted %t", text, told)
		}
	}
}

// What the model is told beside a message is never taken for the user's words.
func TestHintsAreNoPartOfTheConversation(t *testing.T) {
	h := library(t, nil)
	h.ask(room, "as we discussed")
	h.ask(room, "thank you")
	if strings.Contains(h.system(), "may point at") {
		t.Error("the hint outlives its run")
	}
	for _, line := range h.history(room) {
		if strings.Contains(line, "may point at") {
			t.Errorf("the hint was stored: %q", line)
		}
	}
}

// A model is not told of tools that it does not have.
func TestModelIsToldHowItRemembersWhenItCanLookThingsUp(t *testing.T) {
	h := library(t, nil)
	h.ask(room, "hello")
	if got := h.system(); !strings.Contains(got, tools.RecallName) || !strings.Contains(got, "session_state") {
		t.Errorf("with the tools: %q", got)
	}
	h = newHouse(t, nil)
	h.ask(room, "as we discussed")
	if got := h.system(); got != h.parts.SystemPrompt {
		t.Errorf("without them: %q", got)
	}
}
