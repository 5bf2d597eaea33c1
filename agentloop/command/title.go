package command

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/plaintext"
)

// maxTitle is the most characters of a title that a person gives.
const maxTitle = 80

var titleCommand = Command{
	Name: "title", Arguments: "[text]", Description: "Show or change the title of this conversation",
	Options:   []Option{{Name: "text", Description: "The new title"}},
	ReadsTalk: true, Run: titleConversation,
}

func titleConversation(_ context.Context, _ Env, r Request) (Result, error) {
	title := plaintext.ShortLine(r.Arguments, maxTitle)
	switch present := r.Snapshot.Conversation.Title; {
	case title == "" && present == "":
		return Result{Text: "This conversation has no title yet; `/title WORDS` gives it one."}, nil
	case title == "":
		return Result{Text: fmt.Sprintf("This conversation is called %s; `/title WORDS` changes that.", quoted(present))}, nil
	}
	return Result{
		Text:   fmt.Sprintf("This conversation is called %s from now on.", quoted(title)),
		Effect: conversation.Effect{Title: title},
	}, nil
}
