package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"parley/conversation/approvals"
)

var answerCommand = Command{
	Name: "answer", Arguments: "number field text", Description: "Answer what the server of a tool asks",
	Options: []Option{
		{Name: "question", Description: "The number of the question", Number: true},
		{Name: "field", Description: "The number of the field", Number: true, Default: "1"},
		{Name: "text", Description: "Your answer"},
	},
	Run: answerField,
}

// answerField stores the answer to a field of a form, and shows what is asked next.
func answerField(ctx context.Context, env Env, r Request) (Result, error) {
	number, rest, _ := strings.Cut(strings.TrimSpace(r.Arguments), " ")
	field, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return Result{Text: "`/answer 12 1 blue` answers the first field of question 12. `/approvals` lists what is open."}, nil
	}
	store := approvals.New(env.Store)
	q, err := store.Get(ctx, r.Session, id)
	switch {
	case errors.Is(err, approvals.ErrNone):
		return Result{Text: fmt.Sprintf("There is no question %d here, or it was asked long ago. `/approvals` lists what is open.", id)}, nil
	case err != nil:
		return Result{}, err
	case q.Form == nil:
		return Result{Text: fmt.Sprintf("Question %d is answered with `/approve %d` or `/deny %d`.", id, id, id), Actions: q.Actions()}, nil
	case q.State != approvals.Open:
		return Result{Text: closed(q)}, nil
	}
	if refused := mayNotAnswer(env, r, q); refused != "" {
		return stillAsked(q, refused), nil
	}
	n, err := strconv.Atoi(field)
	if err != nil || n < 1 || n > len(q.Form.Fields) || strings.TrimSpace(text) == "" {
		return shown(q), nil
	}
	value, err := q.Form.Fields[n-1].Parse(text)
	if err != nil {
		return Result{Text: approvals.Quote(err.Error()) + ". The question stays open.", Actions: q.Actions()}, nil
	}
	q, filled, err := store.Fill(ctx, r.Session, id, q.Form.Fields[n-1].Name, value)
	switch {
	case err != nil:
		return Result{}, err
	case !filled:
		return Result{Text: closed(q)}, nil
	case q.IsSentAtOnce():
	case r.Message.Keep: // pages and programs see the question itself as it is now
		next := q.NextMessage(n - 1)
		return Result{Text: next.Text, Actions: next.Actions}, nil
	default:
		return shown(q), nil
	}
	q, given, err := store.Give(ctx, approvals.Answer{ID: id, Session: r.Session, Allow: true, By: nameOf(r.Message), Inbound: r.Message.ID})
	return Result{Text: answeredWords(q, given, false)}, err
}

// shown shows a question as it is now.
func shown(q approvals.Question) Result {
	m := q.Message()
	return Result{Text: m.Text, Actions: m.Actions}
}

// incomplete says which answers a form still lacks.
func incomplete(q approvals.Question) Result {
	var labels []string
	for _, f := range q.Missing() {
		labels = append(labels, approvals.Quote(f.Label()))
	}
	return Result{Text: fmt.Sprintf("Question %d can't be sent yet. It still needs: %s.", q.ID, strings.Join(labels, ", ")), Actions: q.Actions()}
}

// answeredForm returns the answer to a command that has answered the form of a server.
func answeredForm(q approvals.Question) string {
	switch {
	case q.State == approvals.Denied:
		return fmt.Sprintf("🚫 Declined by %s: the server %s gets no answer.", q.By, q.ServerName())
	case q.State == approvals.Cancelled:
		return fmt.Sprintf("🚫 Dismissed by %s: the server %s gets no answer.", q.By, q.ServerName())
	case len(q.Form.Fields) == 0:
		return fmt.Sprintf("✅ Accepted by %s, for the server %s.", q.By, q.ServerName())
	}
	return fmt.Sprintf("✅ %s has answered the server %s:\n%s", q.By, q.ServerName(), q.ShowAnswers())
}
