package discordtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Command is a slash command that the bot registered.
// https://discord.com/developers/docs/interactions/application-commands#application-command-object
type Command struct {
	ID           string          `json:"id"`
	Type         int             `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Options      []CommandOption `json:"options"`
	Contexts     []int           `json:"contexts"`
	DMPermission *bool           `json:"dm_permission"`
}

// CommandOption is one argument of a command.
type CommandOption struct {
	Type        int             `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Choices     []CommandChoice `json:"choices"`
	Options     []CommandOption `json:"options"` // of a subcommand
	MinValue    *float64        `json:"min_value"`
	MaxValue    *float64        `json:"max_value"`
	MaxLength   *int            `json:"max_length"`
}

// CommandChoice is a value that an option may have.
type CommandChoice struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// Kinds of options of the usual commands.
const (
	subcommand    = 1
	textOption    = 3
	integerOption = 4
	booleanOption = 5
	numberOption  = 10
)

// commandName is the pattern of names, which must also be in lower case.
// https://discord.com/developers/docs/interactions/application-commands#application-command-object-application-command-naming
var commandName = regexp.MustCompile(`^[-_'\p{L}\p{N}\p{Devanagari}\p{Thai}]{1,32}$`)

// Commands returns the commands registered in a guild, or globally for the zero Guild.
func (s *Server) Commands(of Guild) []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands[of.ID])
}

// commandsOf checks the application and the guild of a request.
func (s *Server) commandsOf(r *request) (guild string, err error) {
	if r.PathValue("application") != ApplicationID {
		return "", UnknownApplication
	}
	if guild = r.PathValue("guild"); guild != "" && s.guilds[guild] == nil {
		return "", MissingAccess
	}
	return guild, nil
}

func (s *Server) getCommands(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	guild, err := s.commandsOf(r)
	if err != nil {
		return nil, err
	}
	return append([]Command{}, s.commands[guild]...), nil
}

// putCommands replaces all commands with those of the body.
// https://discord.com/developers/docs/interactions/application-commands#bulk-overwrite-global-application-commands
func (s *Server) putCommands(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	guild, err := s.commandsOf(r)
	if err != nil {
		return nil, err
	}
	list := []Command{}
	if err := r.decode(&list); err != nil {
		return nil, err
	}
	if len(list) > 100 {
		return nil, Verdict{Status: 400, Code: 30032, Message: "Maximum number of application commands reached (100)."}
	}
	for i := range list {
		c := &list[i]
		if c.Type == 0 {
			c.Type = 1
		}
		field := fmt.Sprint(i)
		if slices.ContainsFunc(list[:i], func(other Command) bool { return other.Name == c.Name && other.Type == c.Type }) {
			return nil, invalid(field+".name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
		}
		if err := c.check(field); err != nil {
			return nil, err
		}
		c.ID = s.idOf(guild, c.Name)
	}
	s.commands[guild] = list
	s.broadcast()
	return list, nil
}

// idOf returns the id that a command had before, or a new one.
func (s *Server) idOf(guild, name string) string {
	for _, c := range s.commands[guild] {
		if c.Name == name {
			return c.ID
		}
	}
	return s.newID()
}

func (c Command) check(field string) error {
	if c.Type != 1 {
		return invalid(field+".type", "BASE_TYPE_CHOICES", "Only slash commands (1) are known here.")
	}
	if err := checkNaming(field, c.Name, c.Description); err != nil {
		return err
	}
	return checkOptions(field+".options", c.Options)
}

func checkNaming(field, name, description string) error {
	if !commandName.MatchString(name) || name != strings.ToLower(name) {
		return invalid(field+".name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
	}
	if n := utf8.RuneCountInString(description); n < 1 || n > 100 {
		return invalid(field+".description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
	}
	return nil
}

func checkOptions(field string, options []CommandOption) error {
	if len(options) > 25 {
		return invalid(field, "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
	}
	optional := false
	for i, o := range options {
		at := fmt.Sprintf("%s.%d", field, i)
		if err := checkNaming(at, o.Name, o.Description); err != nil {
			return err
		}
		switch {
		case o.Type < subcommand || o.Type > 11:
			return invalid(at+".type", "BASE_TYPE_CHOICES", "Value must be between 1 and 11.")
		case slices.ContainsFunc(options[:i], func(other CommandOption) bool { return other.Name == o.Name }):
			return invalid(at+".name", "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS", "Option name already exists")
		case o.Required && optional:
			return invalid(at, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", "Required options must be placed before non-required options")
		case len(o.Choices) > 25:
			return invalid(at+".choices", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
		}
		optional = optional || !o.Required
		if err := checkChoices(at+".choices", o.Choices); err != nil {
			return err
		}
		if err := checkOptions(at+".options", o.Options); err != nil {
			return err
		}
	}
	return nil
}

func checkChoices(field string, choices []CommandChoice) error {
	for i, c := range choices {
		if n := utf8.RuneCountInString(c.Name); n < 1 || n > 100 {
			return invalid(fmt.Sprintf("%s.%d.name", field, i), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
		}
	}
	return nil
}

// offered returns the command that a user finds in a place.
func (s *Server) offered(c *channel, name string) (Command, bool) {
	for _, guild := range []string{c.Guild, ""} {
		for _, known := range s.commands[guild] {
			if known.Name == name && (c.Guild != "" || known.inDMs()) {
				return known, true
			}
		}
	}
	return Command{}, false
}

// inDMs reports whether a global command is offered in DMs with the bot:
// context 1, or without contexts unless dm_permission is false.
func (c Command) inDMs() bool {
	if c.Contexts != nil {
		return slices.Contains(c.Contexts, 1)
	}
	return c.DMPermission == nil || *c.DMPermission
}
