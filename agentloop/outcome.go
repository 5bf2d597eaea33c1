package agentloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	run.Agent = q.setup.name()
	run.Model, run.Rounds = cmp.Or(a.model, lastAsked(a.steps)), a.rounds
	run.Prompt, run.Cached, run.Completion = a.prompt, a.cached, a.completion
	run.Steps, run.Shares = a.steps, q.charged
	run.Effect.Replace, run.Effect.Undo = q.again, q.undo
	run.Events = l.router.toolState.Events(run.Messages)
	run.Window = q.window
	return run
}

// lastAsked returns the model that was called last, "" for none. A call that failed is
// counted as that model's.
func lastAsked(list []steps.Step) string {
	for _, step := range slices.Backward(list) {
		if step.Kind == steps.Model {
			return step.Name
		}
	}
	return ""
}

// doneRun returns the run of an answer.
func (l *loop) doneRun(q question, a answer, started time.Time) conversation.Run {
	run := l.agentRun(q, q.took, a, started)
	last := a.messages[len(a.messages)-1]
	run.Status, run.FinishReason = conversation.StatusDone, last.Finish
	run.Replies = l.reply(q.took, last.Content)
	run.Replies[0].WithPictures = true
	if last.Finish == steps.FinishLength || last.Finish == steps.FinishCutOff {
		run.Replies[0].Actions = []conversation.Action{{Label: "Continue", Command: "/continue"}}
	}
	var warnings []string
	if problems := fileNotice(q.problems); problems != "" {
		warnings = append(warnings, problems)
	}
	warnings = append(warnings, modelNotices(&run, q, a)...)
	addWarnings(&run, cutNotices[last.Finish], append(warnings, a.warnings...))
	return run
}

// addWarnings adds to the run's first reply why it was cut off, "" where it is whole, and what its
// readers should know. A kept reply carries both beside its text, which a program may parse.
func addWarnings(run *conversation.Run, cut string, warnings []string) {
	run.Warnings = warnings
	reply := &run.Replies[0]
	for _, notice := range append([]string{cut}, warnings...) {
		if notice != "" && !reply.Keep {
			reply.Text = below(reply.Text, notice)
		}
	}
}

// modelNotices returns the notices about the model and the agent of a run: that a fallback
// answers from now on, and that the chosen model or agent is no longer configured. Each
// change is told once.
func modelNotices(run *conversation.Run, q question, a answer) (list []string) {
	c, none, answered := q.snapshot.Conversation, "", ""
	if a.fallback != nil {
		answered = a.model
	}
	if answered != c.Fallback {
		run.Effect.Fallback = &answered
		if answered != "" {
			list = append(list, a.fallback.Words(answered))
		}
	}
	if lost := q.setup.lostModel; lost != "" {
		run.Effect.Model = &none
		list = append(list, fmt.Sprintf("↪ *The model %s is not offered any more. This chat uses %s now.*", plaintext.ShortLine(lost, 64), q.setup.label()))
	}
	if lost := q.setup.lostAgent; lost != "" {
		run.Effect.Agent = &none
		list = append(list, fmt.Sprintf("↪ *The agent %s is not offered any more. This chat uses its usual one now.*", plaintext.ShortLine(lost, 64)))
	}
	return list
}

// cutNotices stand below an answer that was cut off. They are not stored with it, so
// the model never reads them as its own words.
var cutNotices = map[steps.FinishReason]string{
	steps.FinishLength:        "✂ *Cut off at the length limit. /continue gets the rest.*",
	steps.FinishContentFilter: "✂ *Cut off by the content filter of the model's provider.*",
	steps.FinishCutOff:        "✂ *The answer broke off here. /continue gets the rest.*",
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
// no answer. That reply is not part of the conversation. The tool rounds that were finished are kept. Without any, an answer
// that /retry was to replace stays; a turn that the messages replace does not.
func (l *loop) failedRun(runs context.Context, q question, a answer, err error, started time.Time) conversation.Run {
	var failure *llm.Error
	if errors.As(err, &failure) && failure.Kind == llm.KindOverBudget {
		return l.overBudgetRun(runs, q, a, failure, started)
	}
	a.messages = wholeRounds(a.messages)
	run := l.unansweredRun(q, a, err, fmt.Sprintf("%s (run %d)", l.failureWords(err), q.took[0].ID), "tries again", "goes on with it", started)
	if last := len(run.Steps) - 1; last >= 0 && run.Steps[last].Failure == "" { // the call itself did not fail, but there is no answer
		run.Steps[last].Failure = string(llm.KindOf(err))
	}
	level := slog.LevelError
	if failure != nil && failure.Kind.IsServers() && l.router.outages.cause(q.setup.label()) != nil {
		level = slog.LevelDebug // the outage is logged by itself
	}
	l.deps.Log.Log(runs, level, "run failed", "session", l.key, "run", run.ID(), "kept_messages", len(a.messages), "error", err)
	run.Replies[0].Actions = []conversation.Action{{Label: "Try again", Command: "/retry"}}
	if len(a.messages) > 0 {
		run.Replies[0].Actions = slices.Insert(run.Replies[0].Actions, 0, conversation.Action{Label: "Continue", Command: "/continue"})
	}
	return run
}

// unansweredRun returns the failed run of a question, with the finished tool rounds of its answer. text tells people why there
// is no answer; retry and goOn say what /retry and /continue do.
func (l *loop) unansweredRun(q question, a answer, err error, text, retry, goOn string, started time.Time) conversation.Run {
	run := l.agentRun(q, q.took, a, started)
	run.Status, run.Error = conversation.StatusFailed, err.Error()
	next := "/retry " + retry + "."
	if len(a.messages) == 0 {
		run.Effect = conversation.Effect{Undo: q.undo}
	} else {
		text += "\n\nI had to end in the middle of my work. " + doneInWords(a.messages) + " The results are kept."
		next = "/continue " + goOn + "; /retry begins again, with all its tool calls."
	}
	run.Replies = l.unanswered(q.took, text+"\n\nYour message is kept; "+next)
	addWarnings(&run, "", a.warnings)
	return run
}

// doneInWords says which tools were called.
func doneInWords(messages []window.Entry) string {
	var names []string
	calls := 0
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			calls++
			if !slices.Contains(names, call.Name) {
				names = append(names, call.Name)
			}
		}
	}
	const most = 5
	if len(names) > most {
		names = append(names[:most], "…")
	}
	if calls == 1 {
		return fmt.Sprintf("1 tool call is done (%s).", names[0])
	}
	return fmt.Sprintf("%d tool calls are done (%s).", calls, strings.Join(names, ", "))
}

// unanswered returns the reply to messages of one origin to which the model gives no answer.
// The texts of reminders among them come first, so that people are reminded all the same.
func (l *loop) unanswered(took []conversation.Inbound, text string) []conversation.Delivery {
	return l.reply(took, reminderTexts(took)+text)
}

// reminderTexts returns the texts of the reminders among messages, each with an empty line behind it.
func reminderTexts(list []conversation.Inbound) string {
	var b strings.Builder
	for _, in := range list {
		if in.Options.Reminder != 0 {
			b.WriteString(in.Text + "\n\n")
		}
	}
	return b.String()
}

// failureWords returns the text by which an error is reported in the chat. Only the operator
// is told the cause.
func (l *loop) failureWords(err error) string {
	var failure *llm.Error
	isModel := errors.As(err, &failure)
	if l.deps.OfOperator != nil && l.deps.OfOperator(l.key) {
		if isModel && failure.Operator != "" {
			err = failure.Brief()
		}
		return upperFirst(plaintext.ShortLine(err.Error(), maxOperatorWords)) + "."
	}
	if isModel && failure.User != "" {
		return failure.User
	}
	return "Something went wrong."
}

// maxOperatorWords is how many characters of an error the operator is shown in a chat.
// The log has all.
const maxOperatorWords = 600

func upperFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// commitStopped commits a run that a /stop has ended. It also settles the /stop and
// messages before it, which are in the inbox by now.
func (l *loop) commitStopped(runs context.Context, q question, a answer, started time.Time) bool {
	now, err := l.begin(runs)
	if err != nil {
		return false
	}
	if !now.More && !slices.ContainsFunc(now.Waiting, isStop) {
		return l.answer(runs, q) // an old /stop that a platform delivered again
	}
	took := slices.Concat(q.took, settledByStop(without(now.Waiting, q.took)))
	return l.commit(runs, l.stoppedRun(q, took, a, started), q.calls...)
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
		written[0].Stopped, written[0].Metadata, written[0].Reasoning = true, metadataOf(q.took), a.thought
		run.Messages = append(run.Messages, written...)
		text = below(partial, text)
	} else if len(a.messages) == 0 {
		run.Effect.Replace = 0 // the answer that /retry was to replace stays
	}
	run.Replies = l.stoppedReplies(took, text)
	addWarnings(&run, "", a.warnings)
	return run
}

// stoppedReplies returns a reply for each origin whose messages a /stop has settled.
// The first one, for which the answer was being written, gets the text. Reminders among them are shown.
func (l *loop) stoppedReplies(took []conversation.Inbound, text string) []conversation.Delivery {
	var replies []conversation.Delivery
	for _, there := range byOrigin(took) {
		replies = append(replies, l.unanswered(there, text)...)
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
// that are not stored yet, and those that a /stop has settled with it. The note that the
// model was told with the question stays with it.
func (l *loop) settledUsers(q question, took []conversation.Inbound) []conversation.Message {
	asked := slices.Clone(q.users[q.stored:])
	if last := len(asked) - 1; last >= 0 && asked[last].Role == conversation.RoleUser && !q.told.IsZero() {
		asked[last].Note = q.told
		asked[last].Tokens += window.NoteTokens(q.told, l.deps.Counter)
	}
	return append(asked, l.router.userMessages(without(took, q.took))...)
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
	if in.LeftOut {
		m.State = conversation.LeftOut
	}
	m.Tokens = r.tokensOf(m)
	return m
}

// tokensOf counts the tokens of a message as it is shown.
func (r *Router) tokensOf(m conversation.Message) int {
	switch {
	case m.Role == conversation.RoleAssistant:
		m = window.NameMade(m)
	case !r.setups.sees():
		m = window.NamePictures(m, len(m.Images))
	}
	return r.deps.Counter.Message(window.ToModel(&m))
}

// noteMessages returns messages that show the model the edited texts of messages that it has
// answered before.
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
