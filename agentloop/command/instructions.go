package command

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/conversation"
)

// maxInstructions is how long instructions may be, in bytes. Programs may give a little more,
// see conversation.Store.SetInstructions.
const maxInstructions = 12 << 10

var instructionsCommand = Command{
	Name: "instructions", Arguments: "[set TEXT|clear]", Description: "Show or change what the assistant is always told in this chat",
	Options: []Option{
		{Name: "change", Description: "What to do; without it, they are shown", Choices: []string{setInstructions, clearInstructions}},
		{Name: "text", Description: "The instructions"},
	},
	Run: runInstructions,
}

// What /instructions can do, as it is written.
const (
	setInstructions   = "set"
	clearInstructions = "clear"
)

func runInstructions(ctx context.Context, env Env, r Request) (Result, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(r.Arguments), " ")
	if first, more, ok := strings.Cut(r.Arguments, "\n"); ok && !strings.Contains(first, " ") {
		word, rest = strings.TrimSpace(first), more
	}
	have := r.Snapshot.Conversation.State.Instructions
	text := strings.TrimSpace(rest)
	change := word == setInstructions || word == clearInstructions
	if change {
		if refused, err := refuseInstructions(ctx, env, r.Message); refused != "" || err != nil {
			return Result{Text: refused}, err
		}
	}
	switch {
	case strings.TrimSpace(r.Arguments) == "" && len(have) == 0:
		return Result{Text: "This chat has no instructions. `/instructions set TEXT` gives it some: the assistant is told them in every answer, also after `/new`."}, nil
	case strings.TrimSpace(r.Arguments) == "":
		return Result{Text: "The assistant is always told here:\n\n" + strings.Join(have, "\n\n") + "\n\n`/instructions set TEXT` replaces this, `/instructions clear` removes it."}, nil
	case word == clearInstructions && text == "":
		return Result{Text: "The instructions of this chat are removed.", Effect: conversation.Effect{Instructions: &text}}, nil
	case word == setInstructions && text == "":
		return Result{Text: "Say what they are: `/instructions set TEXT`."}, nil
	case word == setInstructions && len(text) > maxInstructions:
		return Result{Text: fmt.Sprintf("Instructions have at most %d bytes, and these have %d in %d letters.", maxInstructions, len(text), utf8.RuneCountInString(text))}, nil
	case word == setInstructions:
		return Result{Text: "From the next answer on the assistant is told this in every answer here, also after `/new`. `/instructions clear` removes it.", Effect: conversation.Effect{Instructions: &text}}, nil
	}
	return Result{Text: "`/instructions` can't do that. `/instructions` alone shows them, `/instructions set TEXT` replaces them, `/instructions clear` removes them."}, nil
}

// refuseInstructions returns why the sender of a message may not change instructions, "" if they
// may: in a group only its admins may.
func refuseInstructions(ctx context.Context, env Env, in conversation.Inbound) (string, error) {
	if !in.Group || env.Admins == nil {
		return "", nil
	}
	asking, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	is, err := env.Admins.IsAdmin(asking, in)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "I can't find out at the moment whether you are an admin of this group. Please try again later.", nil
	case !is:
		return "In a group only an admin can change what the assistant is always told.", nil
	}
	return "", nil
}
