package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/approvals"
	"parley/plaintext"
)

func (c *Channel) approvalOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "list-approvals", Method: http.MethodGet, Path: pathOfSession + "/approvals", Tags: []string{tagMessages},
			Summary:     "List the tool calls that wait for an answer",
			Description: "Lists them for a session of any channel, with the tools that are always allowed in it.",
		}, c.listApprovals),
		endpoint(c, huma.Operation{
			OperationID: "answer-approval", Method: http.MethodPost, Path: pathOfSession + "/approvals/{id}", Tags: []string{tagMessages},
			Summary: "Allow or refuse a tool call, or answer what its server asks",
			Description: "In a session of any channel. The first answer counts: a later one is 409, with what became of the call. " +
				"The run goes on when none of its calls waits any more; the answer to its message says what came of it.",
			Errors: []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict},
		}, c.answerApproval),
	}
}

// approval is a tool call that waits, or has waited, for the answer of a person.
type approval struct {
	ID         int64      `json:"id"`
	Run        int64      `json:"run" doc:"The run that asks"`
	Tool       string     `json:"tool"`
	Arguments  string     `json:"arguments" doc:"JSON as the model wrote it; empty once the run has ended"`
	CallID     string     `json:"call_id"`
	Changes    string     `json:"changes,omitempty" doc:"What the server of the tool has changed of it since it was allowed, for which the question is asked again"`
	State      string     `json:"state" enum:"open,allowed,denied,expired,cancelled" doc:"cancelled: the run was stopped, or its message changed or withdrawn"`
	AskedAt    time.Time  `json:"asked_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	AnsweredAt *time.Time `json:"answered_at,omitempty"`
	By         string     `json:"by,omitempty" doc:"Who answered"`
	May        bool       `json:"may_be_remembered,omitempty" doc:"The answer may be remembered for the tool in this session"`
	Form       *form      `json:"form,omitempty" doc:"What the server of the tool wants to know in the middle of the call; without it, the question is whether the call may be made"`
}

// form is what the server of a tool asks.
type form struct {
	Server  string         `json:"server" doc:"Its name in the configuration"`
	Message string         `json:"message"`
	URL     string         `json:"url,omitempty" doc:"The page to open, in place of fields"`
	Fields  []formField    `json:"fields,omitempty"`
	Answers map[string]any `json:"answers,omitempty" doc:"The answers given so far, by the names of the fields"`
}

type formField struct {
	Name     string             `json:"name"`
	Title    string             `json:"title,omitempty"`
	About    string             `json:"about,omitempty"`
	Kind     string             `json:"kind" enum:"text,number,integer,yes_no,one_of,some_of"`
	Required bool               `json:"required,omitempty"`
	Choices  []approvals.Choice `json:"choices,omitempty"`
	Takes    string             `json:"takes" doc:"What the field accepts, in words"`
}

func formOf(q approvals.Question) *form {
	if q.Form == nil {
		return nil
	}
	f := &form{Server: q.Form.Server, Message: q.Form.Message, URL: q.Form.URL, Answers: q.Answers}
	for _, field := range q.Form.Fields {
		f.Fields = append(f.Fields, formField{field.Name, field.Title, field.About, string(field.Kind), field.Required, field.Choices, field.Takes()})
	}
	return f
}

func approvalOf(q approvals.Question) approval {
	a := approval{
		ID: q.ID, Run: q.Run, Tool: q.Tool, Arguments: q.Arguments, CallID: q.CallID, State: string(q.State),
		AskedAt: q.AskedAt.UTC(), ExpiresAt: q.ExpiresAt.UTC(), By: q.By, Changes: q.Changes, May: q.Rememberable, Form: formOf(q),
	}
	if !q.AnsweredAt.IsZero() {
		at := q.AnsweredAt.UTC()
		a.AnsweredAt = &at
	}
	return a
}

func approvalsOf(open []approvals.Question) []approval {
	list := make([]approval, 0, len(open))
	for _, q := range open {
		list = append(list, approvalOf(q))
	}
	return list
}

// allowedTool is a tool that is allowed for a whole session.
type allowedTool struct {
	Tool string    `json:"tool"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

type approvalList struct {
	Body struct {
		Approvals []approval    `json:"approvals" doc:"Those that are open, in the order in which they were asked"`
		Always    []allowedTool `json:"always" doc:"Tools that are always allowed in the session; /approvals revoke TOOL ends that"`
	}
}

func (c *Channel) listApprovals(ctx context.Context, in *OfSession) (*approvalList, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	open, err := approvals.New(c.Store).Open(ctx, key)
	if err != nil {
		return nil, err
	}
	standing, err := approvals.New(c.Store).Standing(ctx, key)
	if err != nil {
		return nil, err
	}
	out := &approvalList{}
	out.Body.Approvals, out.Body.Always = approvalsOf(open), []allowedTool{}
	for _, s := range standing {
		out.Body.Always = append(out.Body.Always, allowedTool{s.Tool, s.By, s.At.UTC()})
	}
	return out, nil
}

type answerApproval struct {
	OfSession
	ID   int64 `path:"id" minimum:"1" doc:"The approval's id" example:"12"`
	Body struct {
		Answer  string         `json:"answer" enum:"allow,deny,cancel" doc:"allow sends the answers to a form; cancel dismisses a form without an answer"`
		Always  bool           `json:"always,omitempty" doc:"Allow the tool in this session from now on, where approve_remember is set"`
		Content map[string]any `json:"content,omitempty" doc:"Answers to the fields of a form, by their names"`
		By      string         `json:"by,omitempty" maxLength:"100" doc:"The name of who answers, for the trace; default API"`
	}
}

type answeredApproval struct{ Body approval }

// answerApproval gives an answer on behalf of the operator, whose token the program has.
func (c *Channel) answerApproval(ctx context.Context, in *answerApproval) (*answeredApproval, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	store := approvals.New(c.Store)
	q, err := store.Get(ctx, key, in.ID)
	if errors.Is(err, approvals.ErrNone) {
		return nil, problem(http.StatusNotFound, "The session has no approval %d, or it was asked for so long ago that it is forgotten.", in.ID)
	}
	if err != nil {
		return nil, err
	}
	if c.OperatorMayAnswer != nil && !c.OperatorMayAnswer(q) {
		return nil, problem(http.StatusForbidden, "The token may not answer this: approvers of the gateway names neither the operator nor anyone.")
	}
	if in.Body.Always && !q.Rememberable {
		return nil, problem(http.StatusUnprocessableEntity, "Answers don't hold for a whole session here: approve_remember is not set.")
	}
	if err := suitsForm(q, in.Body.Answer, in.Body.Content); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, "The answer does not suit the question: %v.", err)
	}
	by := plaintext.OneLine(in.Body.By)
	if by == "" {
		by = "API"
	}
	q, given, err := store.Give(ctx, approvals.Answer{
		ID: in.ID, Session: key, Allow: in.Body.Answer == "allow", Cancel: in.Body.Answer == "cancel", Remember: in.Body.Always, By: by, Content: in.Body.Content,
	})
	if errors.Is(err, approvals.ErrMissing) {
		return nil, problem(http.StatusUnprocessableEntity, "The form can't be sent yet: content must answer %s.", q.Missing()[0].Name)
	}
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, problem(http.StatusConflict, "The approval is not open any more: it is %s.", q.State)
	}
	c.Answered(key)
	return &answeredApproval{approvalOf(q)}, nil
}

// suitsForm returns an error where an answer is none to the question.
func suitsForm(q approvals.Question, answer string, content map[string]any) error {
	switch {
	case q.Form != nil:
		return q.CheckContent(content)
	case len(content) > 0 || answer == "cancel":
		return errors.New("it is whether a call may be made, which is allow or deny, without content")
	}
	return nil
}

// waitingFor returns the open questions that a message waits for: those of a run that began
// with it or with an earlier message of its session. A command waits for no other run.
func (c *Channel) waitingFor(ctx context.Context, key conversation.Key, inbound int64) ([]approvals.Question, error) {
	open, err := approvals.New(c.Store).Open(ctx, key)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(open, func(q approvals.Question) bool { return q.Run > inbound })
	if !slices.ContainsFunc(list, func(q approvals.Question) bool { return q.Run < inbound }) {
		return list, nil
	}
	const most = 10_000
	waiting, err := c.Store.Inbox(ctx, key, most)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(waiting, func(in conversation.Inbound) bool { return in.ID == inbound })
	if i < 0 { // it was settled since the questions were read, perhaps by the command that has closed them
		return nil, nil
	}
	if _, is := waiting[i].Command(); is {
		list = slices.DeleteFunc(list, func(q approvals.Question) bool { return q.Run < inbound })
	}
	return list, nil
}
