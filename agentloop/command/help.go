package command

import (
	"context"
	"fmt"
	"strings"
)

// helpCommand is a function, since a variable could not list itself.
func helpCommand() Command {
	return Command{Name: "help", Description: "Show the commands", Run: showHelp}
}

func showHelp(context.Context, Env, Request) (Result, error) {
	var b strings.Builder
	for _, c := range All() {
		fmt.Fprintf(&b, "- `/%s` — %s\n", strings.TrimSpace(c.Name+" "+c.Arguments), c.Description)
	}
	b.WriteString("\nEverything else that you write goes to the assistant.")
	return Result{Text: b.String()}, nil
}
