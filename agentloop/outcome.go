package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/steps"
	"parley/llm"
	"parley/markup"
	"parley/plaintext"
)

// A run ends done, failed or stopped. Each function here makes the run that is then
// committed.

func (l *loop) newRun(snapshot conversation.Snapshot, took []conversation.Inbound, started time.Time) conversation.Run {
	return conversation.Run{
		Key:          l.key,
		Kind:         conversation.KindAgent,
		Took:         took,
		Conversation: snapshot.Conversation,
		Instructions: instructed(snapshot, took).Conversation.State.Instructions,
		StartedAt:    started,
	}
}

func (l *loop) agentRun(q question, took []conversation.Inbound, a answer, started time.Time) conversation.Run {
	run := l.newRun(q.snapshot, slices.Concat(took, q.notes), started)
	answers := window.Rows(a.messages)
	for i := range answers {
		answers[i].Metadata = metadataOf(q.took)
	}
	run.Messages = slices.Concat(l.settledUsers(q, took), l.internalRows(q.hint), answers)
	run.Title = titleOf(q.took, run.Messages)
	run.Model, run.Rounds = a.model, a.rounds
	run.Prompt, run.Cached, run.Completion = a.prompt, a.cached, a.completion
	run.Steps = a.steps
	run.Effect.Replace, run.Effect.Undo = q.again, q.undo
	run.Events = l.router.toolState.Events(run.Messages)
	run.Window = q.window
	return run
}

// doneRun returns the run of an answer.
func (l *loop) doneRun(q question, a answer, started time.Time) conversation.Run {
	run := l.agentRun(q, q.took, a, started)
	last := a.messages[len(a.messages)-1]
	run.Status, run.FinishReason = conversation.StatusDone, last.Finish
	run.Replies = l.reply(q.took, last.Content)
	for _, notice := range []string{cutNotices[last.Finish], fileNotice(q.problems)} {
		for i := range run.Replies {
			if notice != "" && !run.Replies[i].Keep { // a program reads the reason beside the text
				run.Replies[i].Text = below(run.Replies[i].Text, notice)
			}
		}
	}
	return run
}

// cutNotices stand below an answer that was cut off. They are not stored with it, so
// the model never reads them as its own words.
var cutNotices = map[steps.FinishReason]string{
	steps.FinishLength:        "✂ *Cut off at the length limit. Say “go on” to get the rest.*",
	steps.FinishContentFilter: "✂ *Cut off by the content filter of the model's provider.*",
}

// fileNotice tells the user of files that could not be kept or read.
func fileNotice(problems []string) string {
	const most = 5
	shown := problems[:min(len(problems), most)]
	lines := make([]string, 0, most+1)
	for _, problem := range shown {
		lines = append(lines, "📎 "+problem)
	}
	if more := len(problems) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("📎 %d more files could not be read.", more))
	}
	return strings.Join(lines, "\n")
}

// below puts a notice under a text. A code block that is open at its end is closed.
func below(text, notice string) string {
	text = strings.TrimRight(text, " \n")
	if fence := markup.OpenFence(text); fence != "" {
		text += "\n" + fence
	}
	return text + "\n\n" + notice
}

// failedRun returns a run that stores the user's messages and replies that there is
// no answer. That reply is not part of the conversation. An answer that /retry was to
// replace stays; a turn that the messages replace does not.
func (l *loop) failedRun(q question, a answer, err error, started time.Time) conversation.Run {
	a.messages = nil
	run := l.agentRun(q, q.took, a, started)
	run.Status, run.Error, run.Effect = conversation.StatusFailed, err.Error(), conversation.Effect{Undo: q.undo}
	l.deps.Log.Error("run failed", "session", l.key, "run", run.ID(), "error", err)
	run.Replies = l.reply(q.took, fmt.Sprintf("%s (run %d)\n\nYour message is kept; /retry tries again.", userWords(err), run.ID()))
	run.Replies[0].Actions = []conversation.Action{{Label: "Try again", Command: "/retry"}}
	return run
}

// userWords returns what a user is told of an error.
func userWords(err error) string {
	var failure *llm.Error
	if errors.As(err, &failure) && failure.User != "" {
		return failure.User
	}
	return "Something went wrong."
}

// commitStopped commits a run that a /stop has ended. It also settles the /stop and
// the messages before it, which are in the inbox by now.
func (l *loop) commitStopped(runs context.Context, q question, a answer, started time.Time) bool {
	now, err := l.begin(runs)
	if err != nil {
		return false
	}
	if !now.More && !slices.ContainsFunc(now.Waiting, isStop) {
		return l.answer(runs, q) // an old /stop that a platform delivered again
	}
	background := without(now.Waiting, q.took)
	took := slices.Concat(q.took, background[:settledByStop(background)])
	return l.commit(runs, l.stoppedRun(q, took, a, started))
}

// stopped is the reply to each origin whose messages a /stop has settled.
const stopped = "⏹ Stopped."

// stoppedRun returns a run that stores the answer so far, marked as stopped, and the
// messages that waited behind the question, unanswered.
func (l *loop) stoppedRun(q question, took []conversation.Inbound, a answer, started time.Time) conversation.Run {
	a.messages = wholeRounds(a.messages)
	run := l.agentRun(q, took, a, started)
	run.Status = conversation.StatusStopped
	text := stopped
	if partial := strings.TrimSpace(a.partial); partial != "" {
		written := window.Rows([]window.Entry{window.NewEntry(l.deps.Counter, llm.Message{Role: "assistant", Content: partial})})
		written[0].Stopped, written[0].Metadata = true, metadataOf(q.took)
		run.Messages = append(run.Messages, written...)
		text = below(partial, text)
	} else if len(a.messages) == 0 {
		run.Effect.Replace = 0 // the answer that /retry was to replace stays
	}
	run.Replies = l.stoppedReplies(took, text)
	return run
}

// stoppedReplies returns a reply for each origin whose messages a /stop has settled.
// The first one, for which the answer was being written, gets the text.
func (l *loop) stoppedReplies(took []conversation.Inbound, text string) []conversation.Delivery {
	var replies []conversation.Delivery
	for _, there := range byOrigin(took) {
		replies = append(replies, l.reply(there, text)...)
		text = stopped
	}
	return replies
}

// wholeRounds leaves out a last message with calls whose results are missing: the
// model's API refuses a call without its result.
func wholeRounds(messages []window.Entry) []window.Entry {
	if n := len(messages); n > 0 && len(messages[n-1].ToolCalls) > 0 {
		return messages[:n-1]
	}
	return messages
}

// reply returns a reply to messages of one origin, addressed as the last of them.
func (l *loop) reply(took []conversation.Inbound, text string) []conversation.Delivery {
	last := took[len(took)-1]
	to := last.Destination()
	return []conversation.Delivery{{Key: l.key, Channel: to.Channel, Account: to.Account, Address: to.Address, Text: text, Keep: last.Keep}}
}

// settledUsers returns the user messages that a run stores: those of the question
// that are not stored yet, and those that a /stop has settled with it.
func (l *loop) settledUsers(q question, took []conversation.Inbound) []conversation.Message {
	return slices.Concat(q.users[q.stored:], l.router.userMessages(without(took, q.took)))
}

// userMessages returns inbound as messages of the conversation, without commands.
// Files are only named.
func (r *Router) userMessages(took []conversation.Inbound) []conversation.Message {
	var users []conversation.Message
	for _, in := range took {
		if _, command := in.Command(); command {
			continue
		}
		users = append(users, r.userMessage(in, withNames(in)))
	}
	return users
}

func (r *Router) userMessage(in conversation.Inbound, e enclosed) conversation.Message {
	m := conversation.Message{Role: conversation.RoleUser, Content: e.text, Images: e.images, Files: e.files, SourceID: in.SourceID, At: in.At, Metadata: in.Options.Metadata}
	if in.Group {
		m.Sender = in.Sender
	}
	counted := m // as it is shown
	if !r.deps.Vision {
		counted.Images = nil
		for _, image := range m.Images {
			counted.Content = join(counted.Content, imageLine(image))
		}
	}
	m.Tokens = r.deps.Counter.Message(window.ToModel(&counted))
	return m
}

// noteMessages returns messages that tell the model how earlier ones, which it has
// answered, read after an edit.
func (r *Router) noteMessages(notes []conversation.Inbound) []conversation.Message {
	var told []conversation.Message
	for _, in := range notes {
		told = append(told, r.userMessage(in, enclosed{text: "[edited: the message of " + in.At.Format("2006-01-02 15:04") + " now reads]\n" + in.Text}))
	}
	return told
}

// internalRows returns a text of the gateway as an internal message, which the archive
// keeps: a hint stands behind its question. No later window has it, and people don't
// see it in the conversation.
func (l *loop) internalRows(text string) []conversation.Message {
	if text == "" {
		return nil
	}
	told := window.Rows([]window.Entry{window.NewEntry(l.deps.Counter, llm.Message{Role: string(conversation.RoleSystem), Content: text})})
	told[0].Internal = true
	return told
}

// titleOf returns the title of a conversation before anybody has named it: the one
// that its place gives it, or the shortened first line of the first message.
func titleOf(took []conversation.Inbound, users []conversation.Message) string {
	if len(took) > 0 && took[0].Title != "" {
		return plaintext.ShortLine(took[0].Title, 100)
	}
	for _, m := range users {
		if m.Internal {
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(m.Content), "\n")
		if line = plaintext.ShortLine(line, 60); line != "" {
			return line
		}
	}
	return ""
}
