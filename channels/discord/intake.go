package discord

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/retry"
)

// intake turns the events of the gateway into inbound messages. Only its
// goroutine touches its fields, but for the queue.
type intake struct {
	*Channel
	queue  *queue
	accept channels.AcceptFunc
	shards int // how many the bot is split into

	me          user
	application string
	world       *world
	seen        map[string]uint64 // ID of the newest message of each place where the bot was ever addressed
	moved       map[string]bool   // places whose seen is newer than the stored cursor
	batch       []conversation.Inbound
	accepted    []func() // functions to call once the batch is stored
	stored      time.Time
	botRuns     map[string]botRun // by place

	catching     catchUp
	undocumented map[string]bool // kinds of events that the log has warned of
	helpers      sync.WaitGroup
}

func (c *Channel) newIntake(accept channels.AcceptFunc) *intake {
	return &intake{
		Channel: c, queue: newQueue(), accept: accept, shards: 1,
		world: newWorld(), seen: map[string]uint64{}, moved: map[string]bool{}, botRuns: map[string]botRun{}, catching: newCatchUp(),
		undocumented: map[string]bool{},
	}
}

// run handles events until ctx ends. The next start finds what is queued then,
// since no cursor has passed it.
func (in *intake) run(ctx context.Context) error {
	defer in.helpers.Wait()
	for {
		select {
		case <-in.queue.ready:
		case <-ctx.Done():
			return nil
		}
		for _, e := range in.queue.take() {
			if err := in.handle(ctx, e); err != nil {
				return in.ended(ctx, err)
			}
		}
		if err := in.flush(ctx); err != nil {
			return in.ended(ctx, err)
		}
	}
}

// ended returns the error of ctx when that has ended, and err otherwise.
func (in *intake) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// handle handles one event. It returns an error when ctx ended or the store
// failed for good.
func (in *intake) handle(ctx context.Context, e event) error {
	switch e.kind {
	case placeLookedAt:
		return in.lookupDone(ctx, e.found)
	case serversWaitOver:
		clear(in.catching.awaited)
		in.startLookups(ctx)
	case "READY":
		return in.ready(ctx, e)
	case "GUILD_CREATE":
		in.guildCreated(ctx, decode[guild](in, e))
	case "GUILD_UPDATE":
		in.guildUpdated(decode[guild](in, e))
	case "GUILD_DELETE":
		in.guildGone(ctx, decode[guild](in, e))
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		in.placeChanged(decode[channel](in, e))
	case "CHANNEL_DELETE", "THREAD_DELETE":
		delete(in.world.places, decode[channel](in, e).ID)
	case "THREAD_LIST_SYNC":
		list := decode[threadList](in, e)
		in.world.addAll(list.GuildID, list.Threads)
	case "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "INTERACTION_CREATE":
		return in.inPlace(ctx, e)
	}
	return nil
}

// decode reads an event as far as it can be read.
func decode[T any](in *intake, e event) T {
	var v T
	if err := json.Unmarshal(e.data, &v); err != nil {
		level := slog.LevelWarn
		if in.undocumented[e.kind] {
			level = slog.LevelDebug
		}
		in.undocumented[e.kind] = true
		in.Log.Log(context.Background(), level, "undocumented event format; further events of its kind are logged at the level debug", "event", e.kind, "error", err)
	}
	return v
}

// inPlace handles an event of a place, or holds it until the place is looked up.
func (in *intake) inPlace(ctx context.Context, e event) error {
	where := decode[whereabouts](in, e)
	if number(where.ChannelID) == 0 {
		in.Log.Debug("event skipped", "event", e.kind, "reason", "no channel")
		return nil
	}
	if e.kind == "MESSAGE_CREATE" || e.kind == "INTERACTION_CREATE" {
		in.firstLive.CompareAndSwap(0, number(where.ID))
	}
	switch {
	case in.world.places[where.ChannelID] != nil:
	case where.GuildID == "":
		in.world.places[where.ChannelID] = &place{id: where.ChannelID, kind: typeDM}
	case where.Channel != nil:
		in.world.addAll(where.GuildID, []channel{*where.Channel})
	default:
		in.catching.look(where.ChannelID).guild = where.GuildID
	}
	p := in.world.places[where.ChannelID]
	if in.catching.holdEvent(where.ChannelID, e) {
		in.startLookups(ctx)
		if e.kind == "INTERACTION_CREATE" && p != nil {
			i := decode[interaction](in, e)
			return in.usedInHold(ctx, &i, p)
		}
		return nil
	}
	return in.handleInPlace(ctx, e, p)
}

// handleInPlace handles an event of a place that is known.
func (in *intake) handleInPlace(ctx context.Context, e event, p *place) error {
	switch e.kind {
	case "MESSAGE_CREATE":
		m := decode[message](in, e)
		return in.handleMessage(ctx, &m, p)
	case "MESSAGE_UPDATE":
		m := decode[message](in, e)
		return in.changed(ctx, &m, p)
	case "MESSAGE_DELETE":
		return in.deleted(ctx, p, decode[message](in, e).ID)
	case "MESSAGE_DELETE_BULK":
		return in.deleted(ctx, p, decode[bulk](in, e).IDs...)
	case "INTERACTION_CREATE":
		i := decode[interaction](in, e)
		return in.used(ctx, &i, p)
	}
	return nil
}

// take adds a message to the batch. Its place is known from now on.
func (in *intake) take(message conversation.Inbound, place, id string) {
	in.batch = append(in.batch, message)
	in.addKnown(place, number(id))
}

// addKnown adds a place in which missed messages are looked for.
func (in *intake) addKnown(place string, id uint64) {
	if id > in.seen[place] {
		in.seen[place], in.moved[place] = id, true
	}
}

// isKnown reports whether the bot was addressed in a place before.
func (in *intake) isKnown(p *place) bool { return in.seen[p.id] > 0 }

// advance moves the cursor of a known place.
func (in *intake) advance(p *place, id string) {
	if in.isKnown(p) {
		in.addKnown(p.id, number(id))
	}
}

const (
	maxBatch    = 200         // most messages that are stored together
	cursorEvery = time.Minute // how often cursors are stored that have moved without a message for the bot
)

// flush stores the batch with the cursors of the places. It retries until the
// store takes it or ctx ends.
func (in *intake) flush(ctx context.Context) error {
	if len(in.batch) == 0 && (len(in.moved) == 0 || time.Since(in.stored) < cursorEvery) {
		return nil
	}
	var cursors []conversation.Cursor
	for _, place := range slices.Sorted(maps.Keys(in.moved)) {
		cursors = append(cursors, conversation.Cursor{Name: in.cursors() + place, Value: strconv.FormatUint(in.seen[place], 10), Grows: true})
	}
	err := retry.PersistAll(ctx, in.Log, "store the messages", func() error {
		return in.accept(ctx, cursors, in.batch...)
	})
	if err != nil {
		return err
	}
	done := in.accepted
	in.batch, in.accepted, in.stored = nil, nil, time.Now()
	clear(in.moved)
	for _, do := range done {
		do()
	}
	return nil
}

// flushFull flushes a batch that is full.
func (in *intake) flushFull(ctx context.Context) error {
	if len(in.batch) < maxBatch {
		return nil
	}
	return in.flush(ctx)
}

// cursors returns the prefix of the names of the places' cursors.
func (in *intake) cursors() string { return name + ":" + in.me.ID + ":" }

// goHelper runs something that must not hold up the intake.
func (in *intake) goHelper(do func()) { in.helpers.Go(do) }

// event is what the intake handles: from the gateway, or from its own helpers.
type event struct {
	kind  string          // name of the gateway's event, such as "MESSAGE_CREATE", or one of the kinds below
	shard shard           // shard from which an event of the gateway came
	data  json.RawMessage // payload of an event of the gateway
	found *lookupResult   // the result, for kind placeLookedAt
}

// What helpers tell.
const (
	placeLookedAt   = "place looked at"
	serversWaitOver = "the wait for the servers is over"
)

// queue holds events in order. It is unbounded, so that the gateway's goroutine,
// which also answers heartbeats, never waits for the store.
type queue struct {
	mu    sync.Mutex
	list  []event
	ready chan struct{} // signals that there are events
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) push(e event) {
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns what is queued, and empties the queue.
func (q *queue) take() []event {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}
