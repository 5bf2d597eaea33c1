package command

import (
	"fmt"
	"slices"
	"strings"

	"parley/conversation/approvals"
)

// answeredArguments is how many characters of the arguments stand in the reply to an answer.
const answeredArguments = 600

// ExpiredApprovals returns the message to the chat of a run whose questions nobody answered
// in time.
func ExpiredApprovals(expired []approvals.Question) approvals.Message {
	if q := expired[0]; q.Form != nil {
		return approvals.Message{Text: fmt.Sprintf("⌛ Nobody answered the question of the server %s within %s. It is told so, and the answer goes on.", q.ServerName(), q.Limit())}
	}
	was := "was"
	if len(expired) > 1 {
		was = "were"
	}
	return approvals.Message{Text: fmt.Sprintf("⌛ %s %s not allowed within %s, so nothing was done. The answer goes on without.",
		ToolNames(expired), was, expired[0].Limit())}
}

// LostQuestions returns the message to the chat of a run whose questions can't be answered any
// more.
func LostQuestions(lost []approvals.Question) approvals.Message {
	return approvals.Message{Text: fmt.Sprintf("⚠️ The gateway was restarted while the server %s waited for an answer here. It can't be answered any more; the answer goes on without.",
		lost[0].ServerName())}
}

// NoLongerAsked returns the reply to the message of a run that is ended while its questions
// are open.
func NoLongerAsked(open []approvals.Question) string {
	if open[0].Form != nil {
		return fmt.Sprintf("⏹ I no longer ask what the server %s wants to know, and its call was ended.", open[0].ServerName())
	}
	return fmt.Sprintf("⏹ I no longer ask for %s; it was not run.", ToolNames(open))
}

// ToolNames returns the names of the tools that questions are about.
func ToolNames(all []approvals.Question) string {
	var names []string
	for _, q := range all {
		if name := q.ToolName(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// StillAsking returns the message to a chat in which somebody writes while a question is
// open.
func StillAsking(open []approvals.Question) approvals.Message {
	q := open[0]
	m := approvals.Message{Actions: q.Actions()}
	if q.Form != nil {
		m.Text = fmt.Sprintf("❓ The server %s still waits for an answer: `/approvals %d` shows what it asks. Then I read what you wrote; /stop ends it.", q.ServerName(), q.ID)
		return m
	}
	m.Text = fmt.Sprintf("❓ I still wait for an answer: may I run %s? `/approve %d` or `/deny %d`. Then I read what you wrote; /stop ends it.",
		q.ToolName(), q.ID, q.ID)
	if more := len(open) - 1; more > 0 {
		m.Text += fmt.Sprintf(" (And %s: `/approvals`.)", plural(int64(more), "more question"))
	}
	return m
}

// closed returns what has become of a question that is not open any more.
func closed(q approvals.Question) string {
	by := ""
	if q.By != "" {
		by = " by " + q.By
	}
	at := q.AnsweredAt.Format("15:04")
	if q.Form != nil {
		return closedForm(q, by, at)
	}
	switch q.State {
	case approvals.Allowed:
		return fmt.Sprintf("Question %d is answered already: %s was allowed%s at %s.", q.ID, q.ToolName(), by, at)
	case approvals.Denied:
		return fmt.Sprintf("Question %d is answered already: %s was denied%s at %s.", q.ID, q.ToolName(), by, at)
	case approvals.Expired:
		return fmt.Sprintf("Question %d is closed: nobody answered within %s. %s was not run; ask for it again if you still want it.", q.ID, q.Limit(), q.ToolName())
	}
	return fmt.Sprintf("Question %d is closed: the answer was stopped, or its message was changed. %s was not run.", q.ID, q.ToolName())
}

// closedForm returns what has become of a form that is not open any more.
func closedForm(q approvals.Question, by, at string) string {
	switch q.State {
	case approvals.Allowed:
		return fmt.Sprintf("Question %d is answered already%s at %s.", q.ID, by, at)
	case approvals.Denied:
		return fmt.Sprintf("Question %d was declined already%s at %s.", q.ID, by, at)
	case approvals.Expired:
		return fmt.Sprintf("Question %d is closed: nobody answered within %s.", q.ID, q.Limit())
	}
	return fmt.Sprintf("Question %d is closed: it was dismissed%s, the answer was stopped, or the gateway was restarted meanwhile.", q.ID, by)
}
