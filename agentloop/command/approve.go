package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
)

// What may follow on /approve and /deny.
const (
	everyQuestion = "all"
	alwaysAllow   = "always"
	cancelForm    = "cancel"
)

var approveCommand = Command{
	Name: "approve", Arguments: "[number|all] [always]", Description: "Allow a tool call that waits for your answer, or send your answers to its server",
	Options: []Option{
		{Name: "question", Description: "The number of the question, or all; without it the only one that is open"},
		{Name: "always", Description: "Allow the tool in this session from now on", Choices: []string{alwaysAllow}},
	},
	Run: func(ctx context.Context, env Env, r Request) (Result, error) {
		return answerQuestion(ctx, env, r, true)
	},
}

var denyCommand = Command{
	Name: "deny", Arguments: "[number|all] [cancel]", Description: "Refuse a tool call that waits for your answer, or a question of its server",
	Options: []Option{
		{Name: "question", Description: "The number of the question, or all; without it the only one that is open"},
		{Name: "cancel", Description: "Dismiss a question of a server without an answer", Choices: []string{cancelForm}},
	},
	Run: func(ctx context.Context, env Env, r Request) (Result, error) {
		return answerQuestion(ctx, env, r, false)
	},
}

// answerQuestion answers the questions that a command names.
func answerQuestion(ctx context.Context, env Env, r Request, allow bool) (Result, error) {
	store := approvals.New(env.Store)
	without, cancel := cutWord(r.Arguments, cancelForm)
	r.Arguments = without
	meant, always, words, err := questionsOf(ctx, store, r)
	if err != nil || words != "" {
		return Result{Text: words}, err
	}
	if always && !env.Approvals.ApproveRemember {
		return Result{Text: "Answers don't hold for a whole session here. `/approve` without “always” allows this call alone."}, nil
	}
	var texts []string
	for _, q := range meant {
		if refused := mayNotAnswer(env, r, q); refused != "" && len(meant) == 1 {
			return stillAsked(q, refused), nil
		} else if refused != "" {
			texts = append(texts, refused)
			continue
		}
		answer := approvals.Answer{ID: q.ID, Session: r.Session, Allow: allow, Cancel: cancel, Remember: always, By: nameOf(r.Message), Inbound: r.Message.ID}
		answered, given, err := store.Give(ctx, answer)
		if errors.Is(err, approvals.ErrMissing) {
			return incomplete(q), nil
		}
		if err != nil {
			return Result{}, err
		}
		texts = append(texts, answeredWords(answered, given, always))
	}
	return Result{Text: strings.Join(texts, "\n\n")}, nil
}

// mayNotAnswer tells the sender of a command that they may not answer a question, and returns
// "" if they may.
func mayNotAnswer(env Env, r Request, q approvals.Question) string {
	who := approvals.Person{Channel: r.Message.Channel(), ID: r.Message.Sender.ID}
	if env.Approvals.MayAnswer(who, env.FromOperator(r.Message), q.Askers) {
		return ""
	}
	return fmt.Sprintf("%s, you may not answer question %d. It stays open.", window.SenderName(r.Message.Sender), q.ID)
}

// stillAsked returns an answer after which a question stays as it is. It shows an open one again:
// the answer to a button takes the place of the message that has it.
func stillAsked(q approvals.Question, text string) Result {
	if q.State != approvals.Open {
		return Result{Text: text}
	}
	again := shown(q)
	again.Text = text + "\n\n" + again.Text
	return again
}

// cutWord returns arguments without a word, and whether they had it.
func cutWord(arguments, word string) (without string, had bool) {
	fields := strings.Fields(arguments)
	i := slices.IndexFunc(fields, func(f string) bool { return strings.EqualFold(f, word) })
	if i < 0 {
		return arguments, false
	}
	return strings.Join(slices.Delete(fields, i, i+1), " "), true
}

// nameOf returns the name of the sender of a message.
func nameOf(in conversation.Inbound) string {
	if in.Sender.Name == "" && in.Sender.ID == "" {
		return in.Channel()
	}
	return window.SenderName(in.Sender)
}

// questionsOf returns the questions that the arguments of a command mean, and whether the
// answer is to hold from now on. If they mean none, words say why.
func questionsOf(ctx context.Context, store *approvals.Approvals, r Request) (meant []approvals.Question, always bool, words string, err error) {
	fields := strings.Fields(strings.ToLower(r.Arguments))
	if i := slices.Index(fields, alwaysAllow); i >= 0 {
		always, fields = true, slices.Delete(fields, i, i+1)
	}
	open, err := store.Open(ctx, r.Session)
	if err != nil {
		return nil, false, "", err
	}
	switch {
	case len(fields) > 1 || len(fields) == 1 && fields[0] != everyQuestion && !isNumber(fields[0]):
		return nil, false, "Name the question by its number, such as `/approve 12`. `/approvals` lists what is open.", nil
	case len(fields) == 1 && fields[0] != everyQuestion:
		id, _ := strconv.ParseInt(fields[0], 10, 64)
		q, err := store.Get(ctx, r.Session, id)
		if errors.Is(err, approvals.ErrNone) {
			return nil, false, fmt.Sprintf("There is no question %d here, or it was asked long ago. `/approvals` lists what is open.", id), nil
		}
		return []approvals.Question{q}, always, "", err
	case len(open) == 0:
		return nil, false, noneOpen(ctx, store, r), nil
	case len(open) > 1 && len(fields) == 0:
		return nil, false, "Which one? " + listed(open) + "\n\nName its number, or say `all`.", nil
	}
	return open, always, "", nil
}

func isNumber(word string) bool {
	_, err := strconv.ParseUint(word, 10, 62)
	return err == nil
}

// noneOpen says that no question is open, and what became of the newest.
func noneOpen(ctx context.Context, store *approvals.Approvals, r Request) string {
	text := "No question is open here."
	if q, err := store.Newest(ctx, r.Session); err == nil {
		text += " " + closed(q)
	}
	return text
}

// answeredWords returns the answer to a command that has answered a question, or come too
// late.
func answeredWords(q approvals.Question, given, always bool) string {
	if !given {
		return closed(q)
	}
	if q.Form != nil {
		return answeredForm(q)
	}
	shown, _ := q.Show(answeredArguments)
	if q.State == approvals.Denied {
		return fmt.Sprintf("🚫 Denied by %s: %s", q.By, shown)
	}
	text := fmt.Sprintf("✅ Allowed by %s: %s", q.By, shown)
	if always && q.Rememberable {
		text += fmt.Sprintf("\n%s runs here without a question from now on. `/approvals revoke %s` ends that.", q.ToolName(), q.Tool)
	}
	return text
}

// listed returns open questions as a list.
func listed(open []approvals.Question) string {
	var b strings.Builder
	for _, q := range open {
		if q.Form != nil {
			fmt.Fprintf(&b, "\n- **%d**: the server %s asks", q.ID, q.ServerName())
			continue
		}
		fmt.Fprintf(&b, "\n- **%d**: %s `%s`", q.ID, q.ToolName(), shortArguments(q.Arguments))
	}
	return b.String()
}

// shortArguments returns the beginning of arguments on one line.
func shortArguments(arguments string) string {
	line := []rune(strings.Join(strings.Fields(approvals.ShowArguments(arguments)), " "))
	if len(line) > 80 {
		return string(line[:79]) + "…"
	}
	return string(line)
}
