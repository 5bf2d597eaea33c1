package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"parley/agentloop"
	"parley/config"
	"parley/llm"
)

// roomProblems returns a problem for each key by which calls have no room for a question beside the system prompt and the tools
// that are known now.
func (g *Gateway) roomProblems() (problems config.Problems) {
	for _, room := range g.router.Rooms() {
		if room.Lacks() <= 0 {
			continue
		}
		p := g.roomProblem(room)
		if !slices.ContainsFunc(problems, func(known config.Problem) bool { return known.Key == p.Key }) {
			problems = append(problems, p)
		}
	}
	return problems
}

func (g *Gateway) roomProblem(room agentloop.Room) config.Problem {
	models := g.models.List()
	model := models[slices.IndexFunc(models, func(m llm.Named) bool { return m.Name == room.Model })]
	reserve := cmp.Or(model.MaxOutputTokens, outputReserve)
	needed := room.Budget + room.Lacks()
	needed = min(needed+reserve, 2*needed) // see window.Budget
	key, found := "conversation.max_tokens", g.cfg.Conversation.MaxTokens
	if window := model.Choice.ContextWindow; window*8/10 < found {
		key, found, needed = "llm.context_window", window, (needed*10+7)/8
		if own := "models." + room.Model + ".context_window"; g.origins[own].Line > 0 {
			key = own
		}
	}
	of := ""
	if room.Agent != "" {
		of = " for the agent " + room.Agent
	}
	origin := g.origins[key]
	return config.Problem{
		File: cmp.Or(origin.File, g.configPath, config.DefaultPath), Line: origin.Line, Key: key,
		Found: fmt.Sprintf("%d, of which %d are left%s beside the answer, and %d of these are for the system prompt and %d for %d tools and the frame",
			found, room.Budget, of, room.Prompt, room.Tools, room.ToolCount),
		Allowed: fmt.Sprintf("at least %d, or fewer tools", needed),
	}
}

// warnOfRoom logs which calls have no room for a question with the tools of servers, and which system prompts are sent cut, when
// that has changed.
func (g *Gateway) warnOfRoom() {
	var told []string
	for _, p := range g.roomProblems() {
		told = append(told, p.Error())
	}
	for _, room := range g.router.Rooms() {
		if !room.IsCut() || room.Lacks() > 0 || room.Model != "" && room.Agent == "" {
			continue
		}
		problem := fmt.Sprintf("agent.system_prompt is too long and is sent cut: it has %d tokens, and with %d for the tools and the frame "+
			"at most %d may be used, half of what one call may have; shorten it, offer fewer tools, or raise conversation.max_tokens or llm.context_window",
			room.Prompt, room.Tools, room.Budget/2)
		if room.Agent != "" {
			problem = "agent " + room.Agent + ": " + problem
		}
		told = append(told, problem)
	}
	if text := strings.Join(told, "\n"); g.toldRoom.Swap(text) != text {
		for _, problem := range told {
			g.log.Warn("configuration", "problem", problem)
		}
	}
}
