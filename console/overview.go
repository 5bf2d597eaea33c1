package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/usage"
	"parley/embedding"
)

// span is a period up to now that the overview can show.
type span struct {
	Name   string        // in the address, "day"
	Label  string        // "Day"
	Length time.Duration // of all of it
	Bucket time.Duration // of one point
	Layout string        // of a point's time
}

const day = 24 * time.Hour

var spans = []span{
	{"hour", "Hour", time.Hour, time.Minute, "15:04"},
	{"day", "Day", day, time.Hour, "Mon 15:04"},
	{"week", "Week", 7 * day, 3 * time.Hour, "Mon 2 Jan 15:04"},
	{"month", "Month", 30 * day, day, "Mon 2 Jan"},
	{"year", "Year", 365 * day, 7 * day, "2 Jan 2006"},
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
	AtWork   []conversation.Key
	Vectors  *embedding.Status // nil without an embedding model
	Failed   int               // deliveries; at most manyFailed
	Many     bool              // there are more of them
	Total    usage.Totals
	Cost     sum
	P50, P95 time.Duration // of all runs in the span
	Points   []point
	Models   []usageLine
	People   []usageLine
}

// channelLine is the state of a channel.
type channelLine struct {
	bots.Health
	Served bool // now; else it is of an earlier configuration
	Queue  bots.Queue
}

// point is one bucket of the plots, and a row of their table.
type point struct {
	Unix  int64
	Label string
	usage.Bucket
}

// usageLine is the usage of a person over all models, or of a model over all
// people.
type usageLine struct {
	Name, Channel string
	Person        string // ID within the channel
	usage.Totals
	Cost sum
}

// sum is a cost, parts of which may have no price.
type sum struct {
	Known   float64
	Partial bool // something in it has no price
	Any     bool // something in it has
}

func (s *sum) add(cost float64, known bool) {
	if known {
		s.Known += cost
	}
	s.Any = s.Any || known
	s.Partial = s.Partial || !known
}

// join adds another sum.
func (s *sum) join(o sum) {
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
		return "≥ " + money(s.Known)
	}
	return money(s.Known)
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
	c.show(w, r, "overview.html", "overview", "Overview", p, "console/plots.js")
}

func (c *Console) readHealth(ctx context.Context, p *overviewPage) error {
	health, err := bots.New(c.Store).Health(ctx)
	if err != nil {
		return err
	}
	if p.Queues, err = bots.New(c.Store).Queues(ctx); err != nil {
		return err
	}
	if c.Embeddings != nil {
		status, err := c.Embeddings(ctx)
		if err != nil {
			return err
		}
		p.Vectors = &status
	}
	known := map[conversation.Account]bool{}
	for _, h := range health {
		of := conversation.Account{Channel: h.Channel, ID: h.Account}
		known[of] = true
		p.Channels = append(p.Channels, channelLine{Health: h, Served: slices.Contains(c.Channels, of)})
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
	failed, err := c.Store.FailedDeliveries(ctx, 0, manyFailed+1)
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
		p.Points = append(p.Points, point{Unix: b.At.Unix(), Label: b.At.In(time.Local).Format(p.Span.Layout), Bucket: b})
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
		if c.Cost != nil {
			list[at].Cost.add(c.Cost(u.Model, u.Prompt, u.Cached, u.Completion))
		}
	}
	slices.SortStableFunc(list, func(a, b usageLine) int { return int(b.Prompt + b.Completion - a.Prompt - a.Completion) })
	return list[:min(len(list), mostLines)]
}
