package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
)

var clearCommand = Command{
	Name: "clear", Description: "Delete this conversation for good",
	Options: []Option{{Name: "confirmation", Description: "What /clear asks for: \"yes\", and in a group a code"}},
	Run:     clearConversation,
}

// adminTimeout is how long a platform may take to say who administers a group.
const adminTimeout = 15 * time.Second

func clearConversation(ctx context.Context, env Env, r Request) (Result, error) {
	c, confirmation := r.Snapshot.Conversation, confirmation(r)
	if c.Messages == 0 && r.Snapshot.Damaged {
		return Result{Text: Unreadable}, nil
	}
	if c.Messages == 0 {
		return Result{Text: "There is nothing to delete: this conversation is empty."}, nil
	}
	if refusal, err := refuseClear(ctx, env, r); refusal != "" || err != nil {
		return Result{Text: refusal}, err
	}
	if given := strings.Join(strings.Fields(r.Arguments), " "); strings.EqualFold(given, confirmation) {
		return Result{
			Text:   fmt.Sprintf("Deleted: %s, with %s. A new conversation begins.", named(c), plural(c.Messages, "message")),
			Effect: conversation.Effect{Delete: true},
		}, nil
	}
	this, alone := "This", ""
	if in := r.Message; in.Group {
		this, alone = window.SenderName(in.Sender)+", this", " (the code is for you alone)"
	}
	offer := []conversation.Action{{Label: "Delete for good", Command: "/clear " + confirmation}}
	return Result{Actions: offer, Text: fmt.Sprintf("%s deletes %s, with %s, for good. Send `/clear %s` to do it%s; /new begins a new conversation and keeps this one.",
		this, named(c), plural(c.Messages, "message"), confirmation, alone)}, nil
}

// refuseClear returns why the sender may not delete the conversation, in words for
// them, or "" when they may. In a group, an admin may delete it, and so may a person
// who is the only one to have written in it.
func refuseClear(ctx context.Context, env Env, r Request) (string, error) {
	in := r.Message
	if !in.Group {
		return "", nil
	}
	people, err := env.Store.Participants(ctx, r.Snapshot.Conversation.ID)
	if err != nil || len(people) == 1 && people[0].ID == in.Sender.ID {
		return "", err
	}
	if env.Admins == nil {
		return clearIsForAdmins(in), nil
	}
	asking, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	admin, err := env.Admins.IsAdmin(asking, in)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		env.Log.Warn("group admins unknown", "session", r.Session, "sender", in.Sender.ID, "error", err)
		return fmt.Sprintf("%s, I can't find out at the moment whether you are an admin of this group, so nothing is deleted. "+
			"Try again in a while; /new begins a new conversation and keeps this one.", window.SenderName(in.Sender)), nil
	case !admin:
		return clearIsForAdmins(in), nil
	}
	return "", nil
}

func clearIsForAdmins(in conversation.Inbound) string {
	return fmt.Sprintf("%s, others have a part in this conversation, so only an admin of this group can delete it. "+
		"/new begins a new conversation and keeps this one.", window.SenderName(in.Sender))
}

// confirmation returns what must follow /clear before anything is deleted. In a
// group this has a code, made of the conversation and the sender, so that it is good
// for these alone. Nothing has to be remembered between the two commands.
func confirmation(r Request) string {
	in := r.Message
	if !in.Group {
		return "yes"
	}
	sum := sha256.Sum256([]byte(r.Snapshot.Conversation.ID + "\n" + in.Sender.ID))
	return "yes " + hex.EncodeToString(sum[:2])
}
