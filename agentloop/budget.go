package agentloop

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/agentloop/command"
	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/retry"
	"parley/conversation/steps"
	"parley/llm"
	"parley/plaintext"
)

// Budgets are the caps of what model calls may use.
type Budgets struct {
	Store         *budgets.Budgets // nil: nothing is capped
	Currency      string           // in which Cost returns costs
	AnswerReserve int              // tokens that an answer is expected to have at most

	Paces *budgets.Paces // how many answers a person gets in a minute; nil: any number

	// Cost returns what tokens of a model cost. nil: nothing.
	Cost func(model string, prompt, cached, completion int64) (cost float64, known bool)
	// Person returns the name of the budget that calls for a person of a channel use, and whether
	// they are never refused. nil: each person has a budget named CHANNEL:ID, and no one is exempt.
	Person func(channel, id string) (name string, unlimited bool)
	// Zone returns the time zone of a person of a channel, nil where it is not known. Without Zone,
	// no time zone is known.
	Zone func(ctx context.Context, channel, id string) *time.Location
	// Refused is called for every call that is refused. nil: nobody is told.
	Refused func(scope budgets.Scope, unit budgets.Unit)
}

// person returns whose budget the calls for a person use; "" when nobody said who it is.
func (b Budgets) person(channel string, who conversation.Sender) (name string, unlimited bool) {
	switch {
	case who.ID == "":
		return "", false
	case b.Person == nil:
		return channel + ":" + who.ID, false
	}
	return b.Person(channel, who.ID)
}

// zone returns the time zone of the sender of a message, nil where it is not known.
func (b Budgets) zone(ctx context.Context, in conversation.Inbound) *time.Location {
	if b.Zone == nil || in.Sender.ID == "" {
		return nil
	}
	return b.Zone(ctx, in.Channel(), in.Sender.ID)
}

// usageOf returns what /usage shows to the sender of a message.
func (r *Router) usageOf(in conversation.Inbound) command.Budgets {
	b := r.deps.Budgets
	person, _ := b.person(in.Channel(), in.Sender)
	return command.Budgets{
		Caps: b.Store, Person: person, Currency: b.Currency, Cost: b.Cost,
		Zone: func(ctx context.Context) *time.Location { return b.zone(ctx, in) },
	}
}

// charge returns whose budgets the calls for messages use, and which part of them.
func (r *Router) charge(key conversation.Key, channel string, shares []conversation.Share) (calls []budgets.Call) {
	for _, s := range shares {
		call := budgets.Call{Session: key, Weight: s.Weight}
		call.Person, call.Unlimited = r.deps.Budgets.person(channel, s.Sender)
		calls = append(calls, call)
	}
	return calls
}

// shares returns for whom the calls for a question are made: the senders of the messages that it shows to the model, by the tokens of
// these with their files.
func (q *question) shares() (shares []conversation.Share) {
	first := len(q.users) - len(q.asked) // the messages before are of the gateway
	for i, in := range q.asked {
		n := slices.IndexFunc(shares, func(s conversation.Share) bool { return s.Sender.ID == in.Sender.ID })
		if n < 0 {
			n = len(shares)
			shares = append(shares, conversation.Share{Sender: in.Sender, Weight: 1})
		}
		if !in.LeftOut {
			shares[n].Weight += int64(q.users[first+i].Tokens)
		}
	}
	if len(shares) == 0 {
		return []conversation.Share{{Sender: q.took[0].Sender, Weight: 1}}
	}
	return shares
}

// isOneOverBudget reports whether a call for several people was refused since one of them has reached a cap.
func (q *question) isOneOverBudget(err error) bool {
	var refused *budgets.Refused
	return errors.As(err, &refused) && refused.Scope == budgets.Person && len(q.charged) > 1
}

// tally adds up what the attempts at a call use.
type tally struct {
	budgets.Amount
	budgets Budgets
}

func (t *tally) add(a llm.Attempt) {
	t.Tokens += int64(a.Usage.Prompt) + int64(a.Usage.Completion)
	if cost := t.budgets.costOf(a); cost != nil {
		t.Cost += *cost
	}
}

// costOf returns what an attempt costs in billionths, nil if neither the model that the server names nor the one that was asked
// for has a price.
func (b Budgets) costOf(a llm.Attempt) *int64 {
	for _, name := range []string{a.Model, a.Asked} {
		if b.Cost == nil {
			break
		}
		if cost, known := b.Cost(name, int64(a.Usage.Prompt), int64(a.Usage.Cached), int64(a.Usage.Completion)); known {
			billionths := budgets.Money(cost)
			return &billionths
		}
	}
	return nil
}

// expected returns an attempt that uses as many tokens as a call is expected to.
func expected(model string, prompt, completion int) llm.Attempt {
	return llm.Attempt{Model: model, Usage: llm.Usage{Prompt: prompt, Completion: completion}}
}

// callModel makes a model call within the budgets. It fails with the kind over_budget where a cap
// is reached. prompt is how many tokens the call is expected to send. It returns the caps of
// which most is used now.
func (r *Router) callModel(ctx context.Context, model Model, to []budgets.Call, prompt int, request llm.Request, emit func(llm.Delta)) (response llm.Response, warnings []budgets.Use, err error) {
	store := r.deps.Budgets.Store
	if store == nil {
		response, err = model.Complete(ctx, request, emit)
		return response, nil, err
	}
	estimate, used := tally{budgets: r.deps.Budgets}, tally{budgets: r.deps.Budgets}
	estimate.add(expected(model.Model(), prompt, r.deps.Budgets.AnswerReserve))
	to = slices.Clone(to)
	for i, part := range estimate.Split(to) {
		to[i].Estimate = part
	}
	reserved, err := r.reserve(ctx, to)
	if err != nil {
		return llm.Response{}, nil, err
	}
	defer func() { warnings = r.endReservation(ctx, reserved, to, used.Amount) }() // also after a panic
	attempted := request.Attempted
	request.Attempted = func(a llm.Attempt) {
		used.add(a)
		if attempted != nil {
			attempted(a)
		}
	}
	response, err = model.Complete(ctx, request, emit)
	if used.Tokens == 0 && (err == nil || response.Text != "" || response.Reasoning != "") { // the server does not say, or the call was stopped
		used.add(expected(response.Model, prompt, r.answerTokens(response)))
	}
	return response, nil, err
}

// reserve reserves a call. It tries again while the store fails.
func (r *Router) reserve(ctx context.Context, to []budgets.Call) (reserved *budgets.Reservation, err error) {
	var refused *budgets.Refused
	err = retry.Persist(ctx, r.deps.Log, "reserve a model call", func() error {
		reserved, err = r.deps.Budgets.Store.Reserve(ctx, to...)
		if errors.As(err, &refused) {
			return nil
		}
		return err
	})
	if err != nil || refused == nil {
		return reserved, err
	}
	r.deps.Log.Info("model call refused", "session", to[0].Session, "person", to[0].Person, "budget", refused.Use)
	if r.deps.Budgets.Refused != nil {
		r.deps.Budgets.Refused(refused.Scope, refused.Unit)
	}
	return nil, &llm.Error{
		Kind: llm.KindOverBudget, User: refused.Words(r.deps.Budgets.Currency), RetryAfter: refused.Reset.Sub(refused.At), Err: refused,
	}
}

// endReservation stores what a call has used, and returns what its chat is to be warned of.
func (r *Router) endReservation(ctx context.Context, reserved *budgets.Reservation, to []budgets.Call, used budgets.Amount) []budgets.Use {
	warnings, err := r.deps.Budgets.Store.End(ctx, reserved, used)
	if err != nil {
		r.deps.Log.Error("use of a budget not stored", "session", to[0].Session, "person", to[0].Person, "tokens", used.Tokens, "error", err)
	}
	for _, w := range warnings {
		r.deps.Log.Warn("most of a budget used", "session", to[0].Session, "person", to[0].Person, "budget", w)
	}
	return slices.DeleteFunc(warnings, func(w budgets.Use) bool { return w.Scope == budgets.Total || len(to) == 1 && to[0].Unlimited })
}

// answerTokens counts the tokens of an answer, with what the model thought before it.
func (r *Router) answerTokens(response llm.Response) int {
	said := r.deps.Counter.Message(llm.Message{Role: "assistant", Content: response.Text, ToolCalls: response.ToolCalls})
	return said + r.deps.Counter.Text(response.Reasoning)
}

// requestTokens counts the tokens of a call.
func (r *Router) requestTokens(request llm.Request) int {
	if r.deps.Budgets.Store == nil {
		return 0
	}
	total := r.deps.Counter.Tools(request.Tools)
	for _, m := range request.Messages {
		total += r.deps.Counter.Message(m)
	}
	return total
}

// refusedStep returns a call that was refused as a step of its run.
func refusedStep(model string, at time.Time, err error) steps.Step {
	return steps.Step{Kind: steps.Model, Name: model, At: at, Error: plaintext.ShortLine(err.Error(), maxStepError), Failure: string(llm.KindOf(err))}
}

// warn notes what the reply warns of.
func (g *generation) warn(ctx context.Context, warnings []budgets.Use) {
	for _, w := range warnings {
		w = w.In(g.deps.Budgets.zone(ctx, g.first))
		g.answer.warnings = append(g.answer.warnings, "⚠️ "+w.Warning(g.deps.Budgets.Currency, g.deps.Store.Now()))
	}
}

// overBudgetRun returns the failed run of a question whose model call was refused because of
// a cap. It keeps the tool rounds that were finished.
func (l *loop) overBudgetRun(runs context.Context, q question, a answer, failure *llm.Error, started time.Time) conversation.Run {
	a.messages = wholeRounds(a.messages)
	text := failure.User
	if refused := (*budgets.Refused)(nil); errors.As(failure, &refused) {
		own := budgets.Refused{Use: refused.In(l.deps.Budgets.zone(runs, q.took[0])), At: refused.At}
		text = own.Words(l.deps.Budgets.Currency)
	}
	run := l.unansweredRun(q, a, failure, text, "answers it then", "goes on with it then", started)
	l.deps.Log.Info("run over budget", "session", l.key, "run", run.ID(), "kept_messages", len(a.messages))
	return run
}
