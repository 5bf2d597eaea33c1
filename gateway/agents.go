package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"parley/agentloop"
	"parley/agentloop/window"
	"parley/channels"
	"parley/config"
	"parley/conversation"
	"parley/internal/glob"
	"parley/llm"
	"parley/tools"
)

// budgetOf returns how many tokens a window may have for a model.
func (g *Gateway) budgetOf(contextWindow, maxOutput int) int {
	if maxOutput == 0 {
		maxOutput = outputReserve
	}
	return window.Budget(g.cfg.Conversation.MaxTokens, contextWindow, maxOutput)
}

// namedModels returns the models of sections [models.NAME] for the router.
func (g *Gateway) namedModels() (list []agentloop.NamedModel) {
	for _, m := range g.models.List()[1:] {
		list = append(list, agentloop.NamedModel{
			Name: m.Name, Model: m.Model, Vision: m.Choice.Vision, Budget: g.budgetOf(m.Choice.ContextWindow, m.MaxOutputTokens), Allow: m.Allow,
		})
	}
	return list
}

// thinks reports whether the gateway has a real model. The offline model makes no titles and no
// summaries.
func (g *Gateway) thinks() bool { return g.choice.Host != "" }

// sees reports whether one of the models takes images.
func (g *Gateway) sees() bool {
	return slices.ContainsFunc(g.models.List(), func(m llm.Named) bool { return m.Choice.Vision })
}

// mayUse reports whether programs may have a model answer in a session of theirs.
func (g *Gateway) mayUse(model string, key conversation.Key) bool {
	return glob.Any(g.cfg.Models[model].Allow, string(key))
}

// mayHave reports whether programs may choose an agent for a session.
func (g *Gateway) mayHave(agent string, key conversation.Key) bool {
	return glob.Any(g.cfg.Agents[agent].AllowSwitch, string(key))
}

// agents returns the agents of sections [agents.NAME].
func (g *Gateway) agents(registry *tools.Registry) (list []agentloop.Agent) {
	for _, name := range slices.Sorted(maps.Keys(g.cfg.Agents)) {
		c := g.cfg.Agents[name]
		a := agentloop.Agent{
			Name: name, Description: c.Description, Model: c.Model, Prompt: g.promptOf(name, c), Tools: registry,
			Temperature: c.Temperature, MaxOutputTokens: c.MaxOutputTokens, MaxToolRounds: g.cfg.Agent.MaxToolRounds, Switch: c.AllowSwitch,
		}
		if c.MaxToolRounds != nil {
			a.MaxToolRounds = *c.MaxToolRounds
		}
		if len(c.Allow)+len(c.Deny) > 0 {
			a.Tools = registry.Only(func(tool string) bool {
				return (len(c.Allow) == 0 || glob.Any(c.Allow, tool)) && !glob.Any(c.Deny, tool)
			})
		}
		list = append(list, a)
	}
	return list
}

// promptOf returns the function that returns the system prompt of an agent.
func (g *Gateway) promptOf(name string, c agentloop.AgentConfig) func() string {
	if c.SystemPromptFile != "" {
		file := &promptFile{path: c.SystemPromptFile, log: g.log.With("agent", name), text: g.cfg.Agent.SystemPrompt}
		return file.read
	}
	text := c.SystemPrompt
	if text == "" {
		text = g.cfg.Agent.SystemPrompt
	}
	return func() string { return text }
}

// promptFile is a file with a system prompt.
type promptFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	time    time.Time // modification time of the file when it was read last
	size    int64
	text    string
	problem string // why the file could not be used last; "" = it could
}

// maxPromptFile is how many bytes a file with a system prompt may have.
const maxPromptFile = 1 << 20

// read returns the text of the file, which it reads again when the file has changed. While the file
// can't be read, is empty or holds no text, as may happen for a moment when an editor saves it, read
// returns the previous text.
func (f *promptFile) read() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.problem == "" && info.ModTime().Equal(f.time) && info.Size() == f.size {
		return f.text
	}
	var text string
	if err == nil {
		text, err = readPrompt(f.path, info)
	}
	if err != nil {
		if f.problem != err.Error() {
			f.log.Warn("system prompt not read; the previous one stays in use", "file", f.path, "error", err)
		}
		f.problem = err.Error()
		return f.text
	}
	if !f.time.IsZero() {
		f.log.Info("system prompt read again", "file", f.path)
	}
	f.problem, f.time, f.size, f.text = "", info.ModTime(), info.Size(), text
	return f.text
}

// readPrompt returns the text of a file with a system prompt. A file without a text is an error.
func readPrompt(path string, info os.FileInfo) (string, error) {
	switch {
	case !info.Mode().IsRegular():
		return "", errors.New("not a file")
	case info.Size() > maxPromptFile:
		return "", fmt.Errorf("%d bytes, allowed: %d at most", info.Size(), maxPromptFile)
	}
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "", err
	case len(bytes.TrimSpace(text)) == 0:
		return "", errors.New("the file is empty")
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return "", errors.New("not a text in UTF-8")
	}
	return string(text), nil
}

// route returns the name of the agent that answers a message by the first route that fits, ""
// for none.
func (g *Gateway) route(in conversation.Inbound) string {
	var place channels.Place
	if c := g.channels[in.Channel()]; c != nil {
		if locator, ok := c.Source.(channels.Locator); ok {
			place = locator.Locate(in)
		}
	}
	for _, r := range g.cfg.Routes {
		if fits(r, g.cfg.Identity, in, place) {
			return r.Agent
		}
	}
	return ""
}

// fits reports whether all that a route names fits a message.
func fits(r config.Route, people config.Identity, in conversation.Inbound, place channels.Place) bool {
	account := in.Channel() + ":" + in.Sender.ID
	named := slices.Contains(people[r.Person], account) || in.Sender.ID != "" && glob.Match(r.Person, account)
	keys := glob.Match(r.Key, string(in.Key)) || in.Origin != "" && glob.Match(r.Key, string(in.Origin))
	return (r.Channel == "" || r.Channel == in.Channel()) &&
		(r.Server == "" || glob.Match(r.Server, place.Server)) &&
		(r.Chat == "" || glob.Match(r.Chat, place.Chat)) &&
		(r.Topic == "" || glob.Match(r.Topic, place.Topic)) &&
		(r.Thread == "" || glob.Match(r.Thread, place.Thread)) &&
		(r.Person == "" || named) && (r.Key == "" || keys)
}
