package discordtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Interaction is a use of a command, or a press of a button.
type Interaction struct {
	ID      string
	Token   string
	Channel string
	User    User
}

// interaction is what the server knows of one.
type interaction struct {
	Interaction
	at        time.Time
	callback  int      // type of the answer; 0 is none yet
	component *Message // the message whose button was pressed; nil for a command
	original  *Message // @original
	later     []*Message
}

// Kinds of interactions:
// https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object-interaction-type
const (
	commandInteraction   = 2
	componentInteraction = 3
)

// Argument is an option that a user gives with a command.
type Argument struct {
	Name  string
	Value any // string, bool, int or float64
}

// Arg is an Argument.
func Arg(name string, value any) Argument { return Argument{name, value} }

// Slash is a user's use of a registered command. It fails, as Discord's
// clients do, when there is no such command in the place or the arguments do
// not fit it.
func (s *Server) Slash(in Channel, by User, name string, args ...Argument) (Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(in.ID)
	command, ok := s.offered(c, name)
	if !ok {
		return Interaction{}, fmt.Errorf("discordtest: no command /%s is offered in channel %s", name, c.ID)
	}
	options, err := command.fill(args)
	if err != nil {
		return Interaction{}, err
	}
	data := map[string]any{"id": command.ID, "name": name, "type": command.Type}
	if len(options) > 0 {
		data["options"] = options
	}
	i := s.interact(c, s.mustUser(by), nil)
	s.dispatchInteraction(i, commandInteraction, data)
	return i.Interaction, nil
}

// fill checks the arguments and gives them the types of the registration.
func (c Command) fill(args []Argument) ([]map[string]any, error) {
	var filled []map[string]any
	for _, a := range args {
		n := slices.IndexFunc(c.Options, func(o CommandOption) bool { return o.Name == a.Name })
		if n < 0 {
			return nil, fmt.Errorf("discordtest: /%s has no option %q", c.Name, a.Name)
		}
		o := c.Options[n]
		if err := o.takes(a.Value); err != nil {
			return nil, fmt.Errorf("discordtest: /%s %s: %w", c.Name, a.Name, err)
		}
		filled = append(filled, map[string]any{"name": o.Name, "type": o.Type, "value": a.Value})
	}
	for _, o := range c.Options {
		if o.Required && !slices.ContainsFunc(args, func(a Argument) bool { return a.Name == o.Name }) {
			return nil, fmt.Errorf("discordtest: /%s needs the option %q", c.Name, o.Name)
		}
	}
	return filled, nil
}

func (o CommandOption) takes(value any) error {
	raw := marshal(value)
	if len(o.Choices) > 0 && !slices.ContainsFunc(o.Choices, func(c CommandChoice) bool { return string(c.Value) == string(raw) }) {
		return fmt.Errorf("%s is none of its choices", raw)
	}
	var err error
	var n float64
	switch o.Type {
	case textOption:
		var text string
		if err = json.Unmarshal(raw, &text); err == nil && o.MaxLength != nil && len([]rune(text)) > *o.MaxLength {
			err = fmt.Errorf("%d characters, at most %d", len([]rune(text)), *o.MaxLength)
		}
		return err
	case booleanOption:
		return json.Unmarshal(raw, new(bool))
	case integerOption:
		err = json.Unmarshal(raw, new(int64))
	case numberOption:
	default:
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err == nil && (o.MinValue != nil && n < *o.MinValue || o.MaxValue != nil && n > *o.MaxValue) {
		err = fmt.Errorf("%v is out of range", n)
	}
	return err
}

// Press is a user's press of a button, or use of a select with values, of a
// message. It fails when the user does not see such a component.
func (s *Server) Press(on Message, by User, customID string, values ...string) (Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[on.ID]
	if m == nil || m.Deleted || m.Ephemeral() && m.Asker != by.ID {
		return Interaction{}, fmt.Errorf("discordtest: %s does not see message %s", by.Username, on.ID)
	}
	component, ok := m.find(customID)
	if !ok || component.Disabled {
		return Interaction{}, fmt.Errorf("discordtest: message %s has no enabled component %q: %s", m.ID, customID, m.Components)
	}
	data := map[string]any{"custom_id": customID, "component_type": component.Type}
	if component.Type == selection {
		data["values"] = orEmpty(values)
	}
	i := s.interact(s.mustChannel(m.Channel), s.mustUser(by), m)
	s.dispatchInteraction(i, componentInteraction, data)
	return i.Interaction, nil
}

func (s *Server) interact(c *channel, by *User, component *Message) *interaction {
	id := s.newID()
	i := &interaction{
		Interaction: Interaction{ID: id, Token: "discordtest-interaction-" + id, Channel: c.ID, User: *by},
		at:          s.now(), component: component,
	}
	s.interactions[i.ID] = i
	s.tokens[i.Token] = i
	return i
}

// dispatchInteraction: https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object
func (s *Server) dispatchInteraction(i *interaction, kind int, data map[string]any) {
	c := s.channels[i.Channel]
	w := map[string]any{
		"id": i.ID, "application_id": ApplicationID, "type": kind, "token": i.Token, "version": 1, "data": data,
		"channel_id": c.ID, "channel": s.wireChannel(c), "locale": "en-US", "entitlements": []any{},
		"app_permissions": strconv.FormatInt(int64(All&^c.denied), 10),
	}
	if g := s.guilds[c.Guild]; g != nil {
		member := g.join(s.users[i.User.ID]).wireWithUser()
		member.Permissions = strconv.FormatInt(int64(All), 10)
		w["guild_id"], w["guild_locale"], w["member"], w["context"] = g.ID, "en-US", member, 0
	} else {
		w["user"], w["context"] = i.User, 1
	}
	if i.component != nil {
		w["message"] = s.wire(i.component, true)
	}
	s.dispatch(event{kind: "INTERACTION_CREATE", guild: c.Guild}, w)
	s.broadcast()
}
