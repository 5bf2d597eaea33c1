package agentloop

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

// Admins tells who administers the groups that people talk in.
type Admins interface {
	// IsAdmin reports whether the sender of a message administers the group that it
	// was written in. It asks the platform where it must; an error says that the
	// platform does not tell now.
	IsAdmin(ctx context.Context, in conversation.Inbound) (bool, error)
}

// adminTimeout is how long a platform may take to say who administers a group.
const adminTimeout = 15 * time.Second

func clearConversation(l *loop, ctx context.Context, turn conversation.Turn, arguments string) (result, error) {
	c, confirmation := turn.Conversation, confirmation(turn)
	if c.Messages == 0 {
		return result{text: "There is nothing to delete: this conversation is empty."}, nil
	}
	if refusal, err := l.refuseClear(ctx, turn); refusal != "" || err != nil {
		return result{text: refusal}, err
	}
	if given := strings.Join(strings.Fields(arguments), " "); strings.EqualFold(given, confirmation) {
		return result{
			text:   fmt.Sprintf("Deleted: %s, with %s. A new conversation begins.", named(c), plural(c.Messages, "message")),
			effect: conversation.Effect{Delete: true},
		}, nil
	}
	this, alone := "This", ""
	if in := turn.Waiting[0]; in.Group {
		this, alone = window.SenderName(in.Sender)+", this", " (the code is for you alone)"
	}
	return result{text: fmt.Sprintf("%s deletes %s, with %s, for good. Send `/clear %s` to do it%s; /new begins a new conversation and keeps this one.",
		this, named(c), plural(c.Messages, "message"), confirmation, alone)}, nil
}

// refuseClear says in words why the sender may not delete the conversation, ""
// when they may. What several people have said in a group, an admin of the group
// may delete; what one person alone has said, that person may too.
func (l *loop) refuseClear(ctx context.Context, turn conversation.Turn) (string, error) {
	in := turn.Waiting[0]
	if !in.Group {
		return "", nil
	}
	people, err := l.Store.Participants(ctx, turn.Conversation.ID)
	if err != nil || len(people) == 1 && people[0].ID == in.Sender.ID {
		return "", err
	}
	if l.Admins == nil {
		return clearIsForAdmins(in), nil
	}
	asking, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	admin, err := l.Admins.IsAdmin(asking, in)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		l.Log.Warn("who administers a group can't be asked", "session", l.key, "sender", in.Sender.ID, "error", err)
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

// confirmation is what must follow /clear before anything is deleted. In a
// group it holds only for who asked and for this conversation, by a code that
// is made of both: nothing has to be remembered between the two commands.
func confirmation(turn conversation.Turn) string {
	in := turn.Waiting[0]
	if !in.Group {
		return "yes"
	}
	sum := sha256.Sum256([]byte(turn.Conversation.ID + "\n" + in.Sender.ID))
	return "yes " + hex.EncodeToString(sum[:2])
}
