package command

import (
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
	"parley/plaintext"
)

// usual is the word by which people give up what they have chosen.
const usual = "default"

// maxChoiceActions is how many choices are offered as buttons, beside the one that goes back.
const maxChoiceActions = 4

// choosing is what a command works with that shows and changes a choice of the session.
type choosing struct {
	command string // "model"
	thing   string // "model", in sentences
	list    []Choice
	now     string // the name of the model or agent that answers now, in words
	usual   string // the name of the model or agent that answers if none is chosen; "" = it has none
	chosen  string // the name that was chosen for the session; "" = nobody has chosen
}

// run returns the answer to the words after the command, and the name that they choose; nil =
// they choose nothing, or what the chat has already.
func (c choosing) run(words string) (Result, *string) {
	name := strings.TrimSpace(words)
	i := slices.IndexFunc(c.list, func(x Choice) bool { return strings.EqualFold(x.Name, name) })
	if i < 0 && name != "" && strings.EqualFold(name, c.usual) {
		name = usual
	}
	switch {
	case name == "":
		return c.shown(), nil
	case strings.EqualFold(name, usual) && c.chosen == "":
		return Result{Text: fmt.Sprintf("Nothing else was chosen here: the %s is %s.", c.thing, c.now)}, nil
	case strings.EqualFold(name, usual):
		none := ""
		return Result{Text: fmt.Sprintf("This chat has its usual %s again.", c.thing)}, &none
	case i >= 0 && c.list[i].Name == c.chosen:
		return Result{Text: fmt.Sprintf("This chat has the %s %s already.", c.thing, c.chosen)}, nil
	case i >= 0:
		text := fmt.Sprintf("This chat has the %s **%s** from now on, also after `/new`. `/%s %s` goes back.", c.thing, c.list[i].Name, c.command, usual)
		return Result{Text: text}, &c.list[i].Name
	}
	shown := c.shown()
	shown.Text = fmt.Sprintf("There is no %s %s to choose here. %s", c.thing, quoted(plaintext.ShortLine(name, 60)), shown.Text)
	return shown, nil
}

// shown returns the list of the models or agents that can be chosen.
func (c choosing) shown() Result {
	var b strings.Builder
	fmt.Fprintf(&b, "The %s of this chat is **%s**.", c.thing, c.now)
	if len(c.list) == 0 && c.chosen == "" {
		fmt.Fprintf(&b, " There is no other one to choose here.")
		return Result{Text: b.String()}
	}
	var actions []conversation.Action
	b.WriteString("\n")
	for _, x := range c.list {
		fmt.Fprintf(&b, "\n- %s", x.Name)
		if x.Words != "" && x.Words != x.Name {
			fmt.Fprintf(&b, " — %s", x.Words)
		}
		if x.Current {
			b.WriteString(" (this one)")
		} else if len(actions) < maxChoiceActions {
			actions = append(actions, conversation.Action{Label: x.Name, Command: "/" + c.command + " " + x.Name})
		}
	}
	if c.chosen != "" {
		fmt.Fprintf(&b, "\n- %s — the usual one", usual)
		if c.usual != "" {
			fmt.Fprintf(&b, ", %s", c.usual)
		}
		actions = append(actions, conversation.Action{Label: usual, Command: "/" + c.command + " " + usual})
	}
	fmt.Fprintf(&b, "\n\n`/%s NAME` chooses another one.", c.command)
	return Result{Text: b.String(), Actions: actions}
}
