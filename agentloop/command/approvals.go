package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
)

const revokeTool = "revoke"

var approvalsCommand = Command{
	Name: "approvals", Arguments: "[number|revoke TOOL]",
	Description: "Show the tool calls that wait for an answer, and the tools that are always allowed here",
	Options:     []Option{{Name: "what", Description: "The number of a question, to see all of it; or revoke and the name of a tool, or all"}},
	Private:     true,
	Run:         showApprovals,
}

func showApprovals(ctx context.Context, env Env, r Request) (Result, error) {
	store := approvals.New(env.Store)
	fields := strings.Fields(r.Arguments)
	switch {
	case len(fields) == 2 && strings.EqualFold(fields[0], revokeTool):
		return revokeApproval(ctx, env, r, fields[1])
	case len(fields) == 1 && isNumber(fields[0]):
		return showQuestion(ctx, env, r, fields[0])
	case len(fields) > 0:
		return Result{Text: "`/approvals` lists the open questions, `/approvals 12` shows one of them whole, `/approvals revoke TOOL` has a tool asked about again."}, nil
	}
	open, err := store.Open(ctx, r.Session)
	if err != nil {
		return Result{}, err
	}
	standing, err := store.Standing(ctx, r.Session)
	if err != nil {
		return Result{}, err
	}
	var parts []string
	var actions []conversation.Action
	if len(open) == 0 {
		parts = append(parts, "No question is open here.")
	} else {
		parts = append(parts, "Waiting for an answer:\n"+listed(open)+"\n\n`/approvals NUMBER` shows one whole; `/approve NUMBER` and `/deny NUMBER` answer it.")
		if len(open) == 1 {
			actions = open[0].Actions()
		}
	}
	if text := listedStanding(standing, env.Approvals.ApproveRemember); text != "" {
		parts = append(parts, text)
	}
	return Result{Text: strings.Join(parts, "\n\n"), Actions: actions}, nil
}

// listedStanding returns the tools that are allowed in a session from now on, "" for none.
func listedStanding(standing []approvals.Standing, counts bool) string {
	if len(standing) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Always allowed in this session:\n")
	for _, s := range standing {
		fmt.Fprintf(&b, "\n- %s, by %s on %s", approvals.QuoteTool(s.Tool), s.By, when(s.At))
	}
	if !counts {
		b.WriteString("\n\nThat has no effect now: this gateway asks each time.")
	}
	fmt.Fprintf(&b, "\n\n`/approvals revoke %s` has it asked about again.", standing[0].Tool)
	return b.String()
}

// showQuestion shows a question with all of its arguments.
func showQuestion(ctx context.Context, env Env, r Request, number string) (Result, error) {
	id, _ := strconv.ParseInt(number, 10, 64)
	q, err := approvals.New(env.Store).Get(ctx, r.Session, id)
	switch {
	case errors.Is(err, approvals.ErrNone):
		return Result{Text: fmt.Sprintf("There is no question %d here, or it was asked long ago.", id)}, nil
	case err != nil:
		return Result{}, err
	case q.State != approvals.Open:
		return Result{Text: closed(q)}, nil
	case q.Form != nil:
		return shown(q), nil
	}
	shown, _ := q.Show(len(q.Arguments) * 12) // more than it can have
	q.Arguments = ""                          // so that the buttons offer to show no more
	return Result{Text: fmt.Sprintf("Question %d: %s\nOpen for %s more.", q.ID, shown, q.Left(env.Store.Now())), Actions: q.Actions()}, nil
}

// revokeApproval has a tool, or all of them, asked about again.
func revokeApproval(ctx context.Context, env Env, r Request, tool string) (Result, error) {
	who := approvals.Person{Channel: r.Message.Channel(), ID: r.Message.Sender.ID}
	if !env.Approvals.MayAnswer(who, env.FromOperator(r.Message), []approvals.Person{who}) {
		return Result{Text: window.SenderName(r.Message.Sender) + ", you may not change that."}, nil
	}
	if strings.EqualFold(tool, everyQuestion) {
		tool = ""
	}
	revoked, err := approvals.New(env.Store).Revoke(ctx, r.Session, tool)
	switch {
	case err != nil:
		return Result{}, err
	case revoked == 0 && tool == "":
		return Result{Text: "No tool is always allowed here."}, nil
	case revoked == 0:
		return Result{Text: fmt.Sprintf("%s is not among the tools that are always allowed here: `/approvals` lists them.", approvals.QuoteTool(tool))}, nil
	case tool == "":
		return Result{Text: "Every tool that must be allowed is asked about again."}, nil
	}
	return Result{Text: fmt.Sprintf("%s is asked about again.", approvals.QuoteTool(tool))}, nil
}
