package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"parley/conversation/budgets"
	"parley/conversation/usage"
)

var usageCommand = Command{
	Name: "usage", Description: "Show what you and this chat have used, today and this month",
	Private: true, Run: showUsage,
}

// Budgets are what /usage shows.
type Budgets struct {
	Caps     *budgets.Budgets // nil: nothing is capped
	Person   string           // whose budget the sender uses; "" = nobody's
	Currency string           // of costs
	Cost     func(model string, prompt, cached, completion int64) (cost float64, known bool)
	Zone     func(ctx context.Context) *time.Location // of the sender, nil where it is not known
}

// spent is what a person or a session has used.
type spent struct{ today, month budgets.Amount }

func showUsage(ctx context.Context, env Env, r Request) (Result, error) {
	b, now := env.Budgets, env.Store.Now()
	person, session, err := b.read(ctx, env, r, now)
	if err != nil {
		return Result{}, err
	}
	var text strings.Builder
	if b.Person != "" {
		fmt.Fprintf(&text, "- **You:** %s today, %s this month\n", b.words(person.today), b.words(person.month))
	}
	fmt.Fprintf(&text, "- **This chat:** %s today, %s this month\n", b.words(session.today), b.words(session.month))
	if b.Caps == nil {
		text.WriteString("\nDays begin at 00:00 UTC. There are no caps.")
		return Result{Text: text.String()}, nil
	}
	caps, err := b.Caps.Of(ctx, b.Person, r.Session)
	if err != nil {
		return Result{}, err
	}
	for _, c := range caps {
		fmt.Fprintf(&text, "- **%s:** %d %% of %s a day\n", capWords[c.Scope], c.Percent(), c.Unit.Words(c.Most, b.Currency))
	}
	if len(caps) > 0 {
		text.WriteString("\n" + caps[0].In(b.Zone(ctx)).More(now))
	}
	return Result{Text: strings.TrimRight(text.String(), "\n")}, nil
}

var capWords = map[budgets.Scope]string{
	budgets.Person: "Your cap", budgets.Session: "Cap of this chat", budgets.Total: "Cap for everybody",
}

// read returns what the sender and the session have used. With caps these are the sums that the
// caps are compared with; else the sums of runs, of which there are only whole days in UTC.
func (b Budgets) read(ctx context.Context, env Env, r Request, now time.Time) (person, session spent, err error) {
	if b.Caps != nil {
		if person.today, person.month, err = b.Caps.Sums(ctx, budgets.Person, b.Person); err == nil {
			session.today, session.month, err = b.Caps.Sums(ctx, budgets.Session, string(r.Session))
		}
		return person, session, err
	}
	now = now.UTC()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	month := today.AddDate(0, 0, 1-now.Day())
	stored, in := usage.New(env.Store), r.Message
	for _, part := range []struct {
		to    *budgets.Amount
		since time.Time
		read  func(since time.Time) ([]usage.Spent, error)
	}{
		{&person.today, today, func(since time.Time) ([]usage.Spent, error) {
			return stored.OfPerson(ctx, in.Channel(), in.Sender.ID, since)
		}},
		{&person.month, month, func(since time.Time) ([]usage.Spent, error) {
			return stored.OfPerson(ctx, in.Channel(), in.Sender.ID, since)
		}},
		{&session.today, today, func(since time.Time) ([]usage.Spent, error) { return stored.OfSession(ctx, r.Session, since) }},
		{&session.month, month, func(since time.Time) ([]usage.Spent, error) { return stored.OfSession(ctx, r.Session, since) }},
	} {
		list, err := part.read(part.since)
		if err != nil {
			return person, session, err
		}
		*part.to = b.sum(list)
	}
	return person, session, nil
}

func (b Budgets) sum(list []usage.Spent) (sum budgets.Amount) {
	for _, s := range list {
		one := budgets.Amount{Tokens: s.Prompt + s.Completion}
		if b.Cost != nil {
			cost, _ := s.Cost.Of(s.Model, b.Cost)
			one.Cost = budgets.Money(cost)
		}
		sum.Add(one)
	}
	return sum
}

// words returns an amount: the tokens, and the cost where there is one.
func (b Budgets) words(a budgets.Amount) string {
	text := budgets.Tokens.Words(a.Tokens, "")
	if a.Cost > 0 {
		text += " (" + budgets.Cost.Words(a.Cost, b.Currency) + ")"
	}
	return text
}
