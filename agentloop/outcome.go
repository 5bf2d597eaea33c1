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
	"parley/conversation/transcript"
	"parley/llm"
)

// The ways in which a run can end, each as the row that is committed.

func (l *loop) newRun(snapshot conversation.Turn, took []conversation.Inbound, started time.Time) conversation.Run {
	return conversation.Run{
		Key:          l.key,
		Kind:         conversation.KindAgent,
		Took:         took,
		Conversation: snapshot.Conversation,
		StartedAt:    started,
	}
}

func (l *loop) agentRun(q question, took []conversation.Inbound, a answer, started time.Time) conversation.Run {
	run := l.newRun(q.snapshot, slices.Concat(took, q.notes), started)
	run.Messages = slices.Concat(l.settledUsers(q, took), l.hintRows(q.hint), window.Rows(a.messages))
	run.Title = titleOf(q.took, run.Messages)
	run.Model, run.Rounds = a.model, a.rounds
	run.Prompt, run.Completion = a.prompt, a.completion
	run.Steps = a.steps
	run.Effect.Replace = q.again
	run.Events = l.events(a.messages)
	return run
}

// doneRun is a run that answered.
func (l *loop) doneRun(q question, a answer, started time.Time) conversation.Run {
	run := l.agentRun(q, q.took, a, started)
	last := a.messages[len(a.messages)-1]
	run.Status, run.FinishReason = conversation.StatusDone, last.Finish
	run.Replies = l.reply(q.took, last.Content)
	if notice := cutNotices[last.Finish]; notice != "" {
		for i := range run.Replies {
			if !run.Replies[i].Keep { // who reads a kept one has the reason beside the text
				run.Replies[i].Text = below(last.Content, notice)
			}
		}
	}
	return run
}

// cutNotices stand below an answer that is not whole. They are no part of it:
// the model is never shown them as its own words.
var cutNotices = map[conversation.FinishReason]string{
	conversation.FinishLength:        "✂ *Cut off at the length limit. Say “go on” to get the rest.*",
	conversation.FinishContentFilter: "✂ *Cut off by the content filter of the model's provider.*",
}

// below puts a notice under an answer that ends somewhere, also within a code
// block.
func below(text, notice string) string {
	text = strings.TrimRight(text, " \n")
	if fence := transcript.OpenFence(text); fence != "" {
		text += "\n" + fence
	}
	return text + "\n\n" + notice
}

// failedRun keeps the user's messages and says in words that there is no
// answer. The words are no part of the conversation, and an answer that was to
// be replaced stays.
func (l *loop) failedRun(q question, a answer, err error, started time.Time) conversation.Run {
	a.messages = nil
	run := l.agentRun(q, q.took, a, started)
	run.Status, run.Error, run.Effect = conversation.StatusFailed, err.Error(), conversation.Effect{}
	l.deps.Log.Error("run failed", "session", l.key, "run", run.ID(), "error", err)
	run.Replies = l.reply(q.took, fmt.Sprintf("%s (run %d)\n\nYour message is kept; /retry tries again.", userWords(err), run.ID()))
	return run
}

func userWords(err error) string {
	var failure *llm.Error
	if errors.As(err, &failure) && failure.User != "" {
		return failure.User
	}
	return "Something went wrong."
}

// commitStopped ends a run that /stop cut short. The /stop, and what else came
// before it, is in the inbox by now and is settled with it.
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

// stopped is what a place is told whose messages a /stop has settled.
const stopped = "⏹ Stopped."

// stoppedRun keeps what was generated, marked. Messages that waited behind the
// stopped ones are kept too, unanswered.
func (l *loop) stoppedRun(q question, took []conversation.Inbound, a answer, started time.Time) conversation.Run {
	a.messages = wholeRounds(a.messages)
	run := l.agentRun(q, took, a, started)
	run.Status = conversation.StatusStopped
	text := stopped
	if partial := strings.TrimSpace(a.partial); partial != "" {
		written := window.Rows([]window.Entry{window.NewEntry(l.deps.Counter, llm.Message{Role: "assistant", Content: partial})})
		written[0].Stopped = true
		run.Messages = append(run.Messages, written...)
		text = below(partial, text)
	} else if len(a.messages) == 0 {
		run.Effect = conversation.Effect{} // nothing replaces the answer that there is
	}
	run.Replies = l.stoppedReplies(took, text)
	return run
}

// stoppedReplies tell every place of which a /stop has settled something; the
// first one's, where the answer was being written, gets what there is of it.
func (l *loop) stoppedReplies(took []conversation.Inbound, text string) []conversation.Delivery {
	var replies []conversation.Delivery
	for _, there := range byPlace(took) {
		replies = append(replies, l.reply(there, text)...)
		text = stopped
	}
	return replies
}

// wholeRounds leaves out a last call whose results are missing: the model's
// API refuses a call without its result.
func wholeRounds(messages []window.Entry) []window.Entry {
	if n := len(messages); n > 0 && len(messages[n-1].ToolCalls) > 0 {
		return messages[:n-1]
	}
	return messages
}

func (l *loop) reply(took []conversation.Inbound, text string) []conversation.Delivery {
	last := took[len(took)-1]
	to := last.Destination()
	return []conversation.Delivery{{Key: l.key, Channel: to.Channel, Account: to.Account, Address: to.Address, Text: text, Keep: last.Keep}}
}

// settledUsers are the user messages that a run stores: those of the question
// unless they are stored already, and those that a /stop settled with it.
func (l *loop) settledUsers(q question, took []conversation.Inbound) []conversation.Message {
	return slices.Concat(q.users[q.stored:], l.router.userMessages(without(took, q.took)))
}

// userMessages are inbound texts as rows of the conversation; commands among
// them are none.
func (r *Router) userMessages(took []conversation.Inbound) []conversation.Message {
	var users []conversation.Message
	for _, in := range took {
		if _, command := in.Command(); command {
			continue
		}
		users = append(users, r.userMessage(in, withNames(in.Text, in.Attachments), nil))
	}
	return users
}

func (r *Router) userMessage(in conversation.Inbound, text string, images []conversation.Image) conversation.Message {
	m := conversation.Message{Role: conversation.RoleUser, Content: text, Images: images, SourceID: in.SourceID, At: in.At}
	if in.Group {
		m.Sender = in.Sender
	}
	m.Tokens = r.deps.Counter.Message(window.ToModel(&m))
	return m
}

// noteMessages tell the model how messages read that were edited after it had
// answered them.
func (r *Router) noteMessages(notes []conversation.Inbound) []conversation.Message {
	var told []conversation.Message
	for _, in := range notes {
		told = append(told, r.userMessage(in, "[edited: the message of "+in.At.Format("2006-01-02 15:04")+" now reads]\n"+in.Text, nil))
	}
	return told
}

// hintRows is a hint as the archive keeps it, behind the question that it was
// about. No later window has it, and people don't see it in the conversation.
func (l *loop) hintRows(hint string) []conversation.Message {
	if hint == "" {
		return nil
	}
	told := window.Rows([]window.Entry{window.NewEntry(l.deps.Counter, llm.Message{Role: string(conversation.RoleSystem), Content: hint})})
	told[0].Internal = true
	return told
}

// titleOf is what the place says that the conversation is about, or the first
// line of what began it, shortened.
func titleOf(took []conversation.Inbound, users []conversation.Message) string {
	if len(took) > 0 && took[0].Title != "" {
		return window.OneLine(took[0].Title, 100)
	}
	for _, m := range users {
		if m.Internal {
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(m.Content), "\n")
		if line = window.OneLine(line, 60); line != "" {
			return line
		}
	}
	return ""
}
