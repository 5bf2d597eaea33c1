package console

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"time"

	"parley/cluster"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/usage"
	"parley/embedding"
	"parley/llm"
	"parley/pages"
)

// span is a period up to now that the overview can show.
type span struct {
	Name   string        // name in the address, such as "day"
	Label  string        // name on the page, such as "Day"
	Length time.Duration // length of the whole span
	Bucket time.Duration // length of the time of one point
	Layout string        // layout of a point's time
	Form   string        // form of a point's time in a browser, see pages.Time
}

const day = 24 * time.Hour

var spans = []span{
	{"hour", "Hour", time.Hour, time.Minute, "15:04", "minute"},
	{"day", "Day", day, time.Hour, "Mon 15:04", "hour"},
	{"week", "Week", 7 * day, 3 * time.Hour, "Mon 2 Jan 15:04", "hour"},
	{"month", "Month", 30 * day, day, "Mon 2 Jan", "day"},
	{"year", "Year", 365 * day, 7 * day, "2 Jan 2006", "week"},
}

// spanOf returns the span of a name, a day for any other name.
func spanOf(name string) span {
	if i := slices.IndexFunc(spans, func(s span) bool { return s.Name == name }); i >= 0 {
		return spans[i]
	}
	return spans[1]
}

type overviewPage struct {
	Spans    []span
	Span     span
	Channels []channelLine
	Queues   []bots.Queue
	Groups   []bots.Group
	Nodes    []cluster.Member // nodes that share the database; none if it is a file
	AtWork   []conversation.Key
	Health   []llm.Health      // states of the models
	Vectors  *embedding.Status // nil without an embedding model
	Caps     []budgetLine      // the caps of [budget], with who has used most of them today

	VectorCost string // cost of the requests for vectors; "" where no price is known
	Failed     int    // number of failed deliveries; at most manyFailed
	Many       bool   // more than manyFailed deliveries have failed
	Asked      int    // tool calls that wait for an answer
	Total      usage.Totals
	Cost       sum
	P50, P95   time.Duration // median and 95th percentile of the duration of all runs in the span
	Points     []point
	Models     []usageLine
	People     []usageLine
}

// channelLine is the state of a channel.
type channelLine struct {
	bots.Health
	Served  bool // the channel is served now; else it is one of an earlier configuration
	Further bool // the same bot on another node; the first line has the queue
	Queue   bots.Queue
}

// point is one bucket of the plots, and a row of their table.
type point struct {
	Unix  int64
	Label template.HTML
	usage.Bucket
}

// usageLine is the usage of a person over all models, or of a model over all
// people.
type usageLine struct {
	Name, Channel string
	Person        string // ID of the person within the channel
	usage.Totals
	Cost sum
}

// sum is a cost, parts of which may have no price.
type sum struct {
	Known    float64
	Partial  bool   // some of the tokens have no price
	Any      bool   // some of the tokens have a price
	Currency string // "" shows none
}

// addCost adds what calls of a model have cost to a sum.
func (c *Console) addCost(s *sum, model string, of usage.Cost) {
	if c.Cost == nil {
		return
	}
	s.Currency = c.Currency
	cost, known := of.Of(model, c.Cost)
	s.Known += cost
	s.Any = s.Any || known || cost > 0
	s.Partial = s.Partial || !known
}

// join adds another sum.
func (s *sum) join(o sum) {
	s.Currency = o.Currency
	s.Known += o.Known
	s.Any = s.Any || o.Any
	s.Partial = s.Partial || o.Partial
}

// String returns the cost as people read it, "–" for one that is not known.
func (s sum) String() string {
	switch {
	case !s.Any:
		return "–"
	case s.Partial:
		return "≥ " + money(s.Known, s.Currency)
	}
	return money(s.Known, s.Currency)
}

// manyFailed is as far as failed deliveries are counted for the overview.
const manyFailed = 100

func (c *Console) showOverview(w http.ResponseWriter, r *http.Request) {
	p := overviewPage{Spans: spans, Span: spanOf(r.URL.Query().Get("range")), AtWork: c.Feed.UnderWay("")}
	for _, part := range []func(context.Context, *overviewPage) error{c.readHealth, c.readFailed, c.readUsage} {
		if err := part(r.Context(), &p); err != nil {
			c.fail(w, r, err)
			return
		}
	}
	asked, err := c.askedCalls(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p.Asked = len(asked)
	c.show(w, r, "overview.html", "overview", "Overview", p, "console/plots.js")
}

// budgetLine is how much of a cap is used today.
type budgetLine struct {
	Scope      string
	Name       string // who has used most of it; "" in total, and where nobody has used anything
	Used, Most string
	Percent    int64
}

// shownOwners is how many people and sessions are shown for a cap.
const shownOwners = 3

func (c *Console) readCaps(ctx context.Context, p *overviewPage) error {
	if c.Caps == nil {
		return nil
	}
	list, err := c.Caps.Most(ctx, shownOwners)
	for _, o := range list {
		p.Caps = append(p.Caps, budgetLine{string(o.Scope), o.Name, o.Unit.String(o.Used), o.Unit.Words(o.Most, c.Currency), o.Percent()})
	}
	return err
}

func (c *Console) readHealth(ctx context.Context, p *overviewPage) error {
	health, err := bots.New(c.Store).Health(ctx)
	if err != nil {
		return err
	}
	if p.Queues, err = bots.New(c.Store).Queues(ctx); err != nil {
		return err
	}
	if p.Groups, err = bots.New(c.Store).Groups(ctx); err != nil {
		return err
	}
	if node := c.Store.Node(); node != nil {
		if p.Nodes, err = node.Members(ctx); err != nil {
			return err
		}
	}
	if c.Models != nil {
		p.Health = c.Models()
	}
	if err := c.readCaps(ctx, p); err != nil {
		return err
	}
	if c.Embeddings != nil {
		status, err := c.Embeddings(ctx)
		if err != nil {
			return err
		}
		p.Vectors = &status
		if status.Used.Cost > 0 {
			p.VectorCost = money(status.Used.Cost, c.Currency)
		}
	}
	known := map[conversation.Account]bool{}
	for _, h := range health {
		of := conversation.Account{Channel: h.Channel, ID: h.Account}
		p.Channels = append(p.Channels, channelLine{Health: h, Served: slices.Contains(c.Channels, of), Further: known[of]})
		known[of] = true
	}
	for _, of := range c.Channels {
		if !known[of] { // it has no platform that it could lose
			health := bots.Health{Channel: of.Channel, Account: of.ID, State: bots.Serving}
			p.Channels = append(p.Channels, channelLine{Health: health, Served: true})
		}
	}
	for _, q := range p.Queues {
		if line := lineOf(p.Channels, q); line != nil {
			line.Queue = line.Queue.Plus(q)
		}
	}
	slices.SortStableFunc(p.Channels, func(a, b channelLine) int { return order(b.Served) - order(a.Served) })
	return nil
}

// lineOf returns the line of the bot that works a queue, or of any bot of the
// channel where the queue's is not known, and nil when none is served.
func lineOf(lines []channelLine, q bots.Queue) *channelLine {
	var found *channelLine
	for i := range lines {
		line := &lines[i]
		switch bot := (conversation.Account{Channel: line.Channel, ID: line.Account}); {
		case line.Channel == q.Channel && line.Account == q.Account:
			return line
		case line.Served && bot.Serves(conversation.Account{Channel: q.Channel, ID: q.Account}):
			found = line
		}
	}
	return found
}

func order(served bool) int {
	if served {
		return 1
	}
	return 0
}

func (c *Console) readFailed(ctx context.Context, p *overviewPage) error {
	failed, err := c.Store.Deliveries(ctx, conversation.DeliveryQuery{Failed: true, Limit: manyFailed + 1})
	p.Failed, p.Many = min(len(failed), manyFailed), len(failed) > manyFailed
	return err
}

// readUsage reads the usage in the span, by model and by person.
func (c *Console) readUsage(ctx context.Context, p *overviewPage) error {
	now := c.Now()
	stats, err := usage.New(c.Store).Stats(ctx, now.Add(-p.Span.Length), now, p.Span.Bucket)
	if err != nil {
		return err
	}
	buckets, whole, err := c.readBuckets(ctx, p.Span, now, stats)
	if err != nil {
		return err
	}
	for _, b := range buckets {
		at := b.At.In(time.Local)
		p.Points = append(p.Points, point{Unix: at.Unix(), Label: pages.Time(at, p.Span.Form, at.Format(p.Span.Layout)), Bucket: b})
		p.Total.Add(b.Totals)
	}
	p.P50, p.P95 = whole.P50, whole.P95
	p.Models = c.lines(stats.Models, func(u usage.Share) usageLine { return usageLine{Name: u.Model} })
	p.People = c.lines(stats.People, func(u usage.Share) usageLine {
		return usageLine{Name: senderName(u.Person), Channel: u.Channel, Person: u.Person.ID}
	})
	for _, line := range p.Models {
		p.Cost.join(line.Cost)
	}
	return nil
}

// readBuckets returns the buckets of a span, and their sum.
func (c *Console) readBuckets(ctx context.Context, of span, now time.Time, stats usage.Stats) (points []usage.Bucket, whole usage.Bucket, err error) {
	var one []usage.Bucket
	if of.Bucket < time.Hour {
		from, to := now.Add(-of.Length).Truncate(of.Bucket), now.Add(time.Second)
		if points, err = usage.New(c.Store).Recent(ctx, from, to, of.Bucket); err == nil {
			one, err = usage.New(c.Store).Recent(ctx, from, to, to.Sub(from))
		}
	} else {
		var all usage.Stats
		points = stats.Buckets
		all, err = usage.New(c.Store).Stats(ctx, stats.From, stats.To, stats.To.Sub(stats.From))
		one = all.Buckets
	}
	if err != nil {
		return nil, whole, err
	}
	return points, one[0], nil
}

// mostLines is how many models or people the overview lists: those used most.
const mostLines = 20

// lines adds up the shares with the same line, and sorts them by tokens.
func (c *Console) lines(shares []usage.Share, line func(usage.Share) usageLine) []usageLine {
	var list []usageLine
	places := map[usageLine]int{}
	for _, u := range shares {
		of := line(u)
		at, known := places[of]
		if !known {
			at = len(list)
			places[of], list = at, append(list, of)
		}
		list[at].Add(u.Totals)
		c.addCost(&list[at].Cost, u.Model, u.Cost)
	}
	slices.SortStableFunc(list, func(a, b usageLine) int { return int(b.Prompt + b.Completion - a.Prompt - a.Completion) })
	return list[:min(len(list), mostLines)]
}
