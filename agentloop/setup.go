package agentloop

import (
	"cmp"
	"slices"
	"sync"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
	"parley/internal/glob"
	"parley/tools"
)

// NamedModel is a model that sessions can have.
type NamedModel struct {
	Name   string   // "" = the default one
	Model  Model    // the client that calls the model
	Vision bool     // the model takes images
	Budget int      // tokens of a window, see window.Budget
	Allow  []string // patterns of the people and places that may choose it, see conversation.Inbound.Names
}

// Agent says how messages are answered: with which system prompt, model and tools, and within which limits.
type Agent struct {
	Name        string // "" = the default one, of Config
	Description string // for people
	Model       string // its model's name; "" = the default model
	Prompt      func() string
	Tools       *tools.Registry

	Temperature     *float64 // nil = as the model's configuration says
	MaxOutputTokens int      // 0 = likewise
	MaxToolRounds   int

	Switch []string // patterns of the people and places that may choose it, see conversation.Inbound.Names
}

// setup is what the runs of a session work with.
type setup struct {
	agent *Agent
	model *NamedModel

	lostModel, lostAgent string // names that were chosen for the session, and are not configured any more
}

// label returns the model's name for people and records.
func (s setup) label() string { return s.model.label() }

func (m *NamedModel) label() string { return cmp.Or(m.Name, m.Model.Model()) }

// name returns the name of the agent, "" for the default one and where there was no run.
func (s setup) name() string {
	if s.agent == nil {
		return ""
	}
	return s.agent.Name
}

// setups are the models and the agents of a router.
type setups struct {
	models []NamedModel // the default one first
	agents []Agent      // the default one first
	route  func(conversation.Inbound) string

	mu     sync.Mutex
	frames map[string]cachedFrame // frames of agents, by the name of the agent
}

// newSetups returns what the dependencies describe.
func newSetups(deps *Deps) *setups {
	prompt := deps.Config.SystemPrompt
	s := &setups{
		models: []NamedModel{{Model: deps.Model, Vision: deps.Vision, Budget: deps.Budget}},
		agents: []Agent{{Prompt: func() string { return prompt }, Tools: deps.Tools, MaxToolRounds: deps.Config.MaxToolRounds}},
		route:  deps.Route,
		frames: map[string]cachedFrame{},
	}
	s.models, s.agents = append(s.models, deps.Models...), append(s.agents, deps.Agents...)
	return s
}

// findModel returns the model of a name, nil for none.
func (s *setups) findModel(name string) *NamedModel {
	i := slices.IndexFunc(s.models, func(m NamedModel) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &s.models[i]
}

// findAgent returns the agent of a name, nil for none.
func (s *setups) findAgent(name string) *Agent {
	i := slices.IndexFunc(s.agents, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &s.agents[i]
}

// of returns what a run works with that answers a message in a conversation: the agent that was
// chosen for the session, else that of the first route that fits; and the model that the message
// asks for, else that of the session, else that of the agent.
func (s *setups) of(c conversation.Conversation, in conversation.Inbound) setup {
	var is setup
	if c.Agent != "" {
		if is.agent = s.findAgent(c.Agent); is.agent == nil {
			is.lostAgent = c.Agent
		}
	}
	if is.agent == nil && s.route != nil {
		is.agent = s.findAgent(s.route(in))
	}
	if is.agent == nil {
		is.agent = &s.agents[0]
	}
	if c.Model != "" && s.findModel(c.Model) == nil {
		is.lostModel = c.Model
	}
	for _, name := range []string{in.Options.Model, c.Model, is.agent.Model} {
		if name == "" {
			continue
		}
		if is.model = s.findModel(name); is.model != nil {
			return is
		}
	}
	is.model = &s.models[0]
	return is
}

// sees reports whether one of the models takes images.
func (s *setups) sees() bool {
	return slices.ContainsFunc(s.models, func(m NamedModel) bool { return m.Vision })
}

// budget returns the largest budget of the models.
func (s *setups) budget() (most int) {
	for _, m := range s.models {
		most = max(most, m.Budget)
	}
	return most
}

// cachedFrame is the frame of an agent, which is counted once.
type cachedFrame struct {
	version any // version of the tools that the frame was made with
	prompt  string
	frame   *window.Frame
}

// frame returns what the runs of an agent begin their calls with now. It is another one only
// after its tools or its prompt have changed.
func (s *setups) frame(counter window.Counter, a *Agent) *window.Frame {
	version, prompt := a.Tools.Version(), a.Prompt()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, is := s.frames[a.Name]; is && known.version == version && known.prompt == prompt {
		return known.frame
	}
	frame := window.NewFrame(counter, prompt, a.Tools)
	s.frames[a.Name] = cachedFrame{version, prompt, frame}
	return frame
}

// setup returns what the next run of a session works with: that which answers the messages
// that wait in the snapshot.
func (r *Router) setup(snapshot conversation.Snapshot) setup {
	in := conversation.Inbound{Key: snapshot.Conversation.Key}
	if len(snapshot.Waiting) > 0 {
		in = snapshot.Waiting[0]
		in.Options = optionsOf(nextToAnswer(snapshot.Waiting))
	}
	return r.setups.of(snapshot.Conversation, in)
}

// choices returns the models and agents that the sender of a message may choose there.
func (r *Router) choices(s setup, in conversation.Inbound) (models, agents []command.Choice) {
	names := in.Names()
	for _, m := range r.setups.models {
		if m.Name != "" && glob.Any(m.Allow, names...) {
			models = append(models, command.Choice{Name: m.Name, Words: m.Model.Model(), Current: s.model.Name == m.Name})
		}
	}
	for _, a := range r.setups.agents {
		if a.Name != "" && glob.Any(a.Switch, names...) {
			agents = append(agents, command.Choice{Name: a.Name, Words: a.Description, Current: s.agent.Name == a.Name})
		}
	}
	return models, agents
}
