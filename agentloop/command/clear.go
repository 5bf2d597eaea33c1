package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/grouptalk"
)

var clearCommand = Command{
	Name: "clear", EndsRun: true, Description: "Delete this conversation for good",
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
	talk, talkers, err := grouptalk.New(env.Store).Count(ctx, r.Session)
	if err != nil {
		return Result{}, err
	}
	if c.Messages == 0 && talk == 0 {
		return Result{Text: "There is nothing to delete: this conversation is empty."}, nil
	}
	if refusal, err := refuseClear(ctx, env, r, talkers); refusal != "" || err != nil {
		return Result{Text: refusal}, err
	}
	what := fmt.Sprintf("%s, with %s", named(c), plural(c.Messages, "message"))
	if talk > 0 {
		what += fmt.Sprintf(", and what people said to each other here (%s)", plural(int64(talk), "message"))
	}
	if given := strings.Join(strings.Fields(r.Arguments), " "); strings.EqualFold(given, confirmation) {
		return Result{Text: fmt.Sprintf("Deleted: %s. A new conversation begins.", what), Effect: conversation.Effect{Delete: true}}, nil
	}
	this, alone := "This", ""
	if in := r.Message; in.Group {
		this, alone = window.SenderName(in.Sender)+", this", " (the code is for you alone)"
	}
	offer := []conversation.Action{{Label: "Delete for good", Command: "/clear " + confirmation}}
	return Result{Actions: offer, Text: fmt.Sprintf("%s deletes %s, for good. Send `/clear %s` to do it%s; /new begins a new conversation and keeps this one.",
		this, what, confirmation, alone)}, nil
}

// refuseClear returns why the sender may not delete the conversation, in words for
// them, or "" when they may. In a group, an admin may delete it. So may a person
// if nobody else has written in it or in the group talk that is deleted with it.
func refuseClear(ctx context.Context, env Env, r Request, talkers []string) (string, error) {
	in := r.Message
	if !in.Group {
		return "", nil
	}
	people, err := catalog.New(env.Store).Participants(ctx, r.Snapshot.Conversation.ID)
	if err != nil {
		return "", err
	}
	for _, p := range people {
		talkers = append(talkers, p.ID)
	}
	if len(talkers) > 0 && !slices.ContainsFunc(talkers, func(id string) bool { return id != in.Sender.ID }) {
		return "", nil
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

// confirmation returns the text that must follow /clear before anything is deleted. In a
// group it contains a code that is computed from the conversation and the sender, so that it
// is valid for these only, and nothing has to be stored between the two commands.
func confirmation(r Request) string {
	in := r.Message
	if !in.Group {
		return "yes"
	}
	sum := sha256.Sum256([]byte(r.Snapshot.Conversation.ID + "\n" + in.Sender.ID))
	return "yes " + hex.EncodeToString(sum[:2])
}
