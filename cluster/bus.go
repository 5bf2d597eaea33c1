package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"parley/internal/clock"
)

// Mode is a way in which notices travel from node to node.
type Mode string

const (
	// Notify uses LISTEN and NOTIFY, on a connection of its own.
	Notify Mode = "notify"
	// Poll reads a table five times a second. It is for servers and connection pools that
	// have no NOTIFY, such as PgBouncer with pool_mode = transaction.
	Poll Mode = "poll"
)

// Notice is what one node tells others. It may get lost: whoever relies on one also looks into the
// database every second.
type Notice struct {
	From  int64 // the node that published it
	Topic string
	Body  string
}

// MaxBody is how long the Body of a notice may be, in bytes of its JSON text. PostgreSQL takes at most 8,000
// bytes for all that is sent at once.
const MaxBody = 7000

const (
	pgChannel    = "parley"
	maxPayload   = 7800 // bytes of one payload of NOTIFY, a JSON list of notices
	publishPace  = 10 * time.Millisecond
	pollPace     = 200 * time.Millisecond
	testTimeout  = 2 * time.Second
	listenIdle   = 10 * time.Second // silence after which the connection is checked
	maxUnsent    = 10_000           // notices that wait to be published; beyond that, the oldest are dropped
	testTopic    = "test"
	everyNode    = 0
	reconnectGap = time.Second
)

// wire is a notice as it is sent.
type wire struct {
	From  int64  `json:"from"`
	To    int64  `json:"to,omitempty"` // ID of the only node that the notice is for, or everyNode
	Topic string `json:"topic"`
	Body  string `json:"body,omitempty"`
}

// bus publishes and receives notices. The publisher sends what waits in one transaction that does nothing
// else: a NOTIFY takes a lock of the whole server until its transaction ends.
type bus struct {
	node *Node
	mode Mode

	mu       sync.Mutex
	unsent   []wire
	handlers map[string][]func(Notice)
	wake     chan struct{} // signals that unsent is not empty
}

func newBus(n *Node) *bus {
	return &bus{node: n, mode: n.config.Bus, handlers: map[string][]func(Notice){}, wake: make(chan struct{}, 1)}
}

// Publish sends a notice to all other nodes, soon. Of equal notices that wait one is sent. It fails
// if the body is longer than MaxBody.
func (n *Node) Publish(topic, body string) error { return n.bus.publish(everyNode, topic, body) }

// Send sends a notice to one node, like Publish.
func (n *Node) Send(node int64, topic, body string) error { return n.bus.publish(node, topic, body) }

// Subscribe has f called with each notice of a topic that other nodes publish. f must not block.
func (n *Node) Subscribe(topic string, f func(Notice)) {
	n.bus.mu.Lock()
	defer n.bus.mu.Unlock()
	n.bus.handlers[topic] = append(n.bus.handlers[topic], f)
}

func (b *bus) publish(to int64, topic, body string) error {
	notice := wire{From: b.node.ID(), To: to, Topic: topic, Body: body}
	if text, err := json.Marshal(notice); err != nil || len(text) > maxPayload-2 {
		return fmt.Errorf("a notice of %q has %d bytes, but at most %d are possible", topic, len(text), MaxBody)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.unsent[max(0, len(b.unsent)-100):], notice) {
		return nil
	}
	if len(b.unsent) == maxUnsent { // while the database can't be reached
		b.unsent = b.unsent[1:]
	}
	b.unsent = append(b.unsent, notice)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

// start finds out how notices travel, then sends and receives them until running ends.
func (b *bus) start(ctx, running context.Context) error {
	if b.mode != Poll {
		conn, err := b.listen(ctx)
		if err == nil {
			err = b.test(ctx, conn)
		}
		switch {
		case err == nil:
			b.mode = Notify
			b.node.stopped.Go(func() { b.receive(running, conn) })
		case conn == nil && !hasServerAnswered(err) || ctx.Err() != nil:
			return err
		case b.mode == Notify:
			conn.Close(ctx)
			return fmt.Errorf("the database passes no notices on, as with PgBouncer in transaction mode: %w", err)
		default:
			if conn != nil {
				conn.Close(ctx)
			}
			b.node.log.Warn("the database passes no notices on; the nodes poll a table instead", "error", err)
			b.mode = Poll
		}
	}
	if b.mode == Poll {
		b.node.stopped.Go(func() { b.poll(running) })
	}
	b.node.stopped.Go(func() { b.send(running) })
	return nil
}

// hasServerAnswered reports whether an error is the server's answer to a statement.
func hasServerAnswered(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer)
}

// listen opens the connection that receives notices.
func (b *bus) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, b.node.config.Database.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgChannel); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// test sends a notice by the connections that publish, and waits for it on the one that listens.
func (b *bus) test(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	token := uuid.NewString()
	if err := b.notify(ctx, []wire{{Topic: testTopic, Body: token}}); err != nil {
		return err
	}
	for {
		received, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		for _, notice := range decode(received.Payload) {
			if notice.Topic == testTopic && notice.Body == token {
				return nil
			}
		}
	}
}

// receive passes the notices of a connection on until ctx ends. It opens a new one when it breaks.
func (b *bus) receive(ctx context.Context, conn *pgx.Conn) {
	for ctx.Err() == nil {
		if conn != nil {
			err := b.receiveFrom(ctx, conn)
			conn.Close(context.Background())
			if ctx.Err() != nil {
				return
			}
			b.node.log.Warn("notices interrupted", "error", err)
		}
		conn, _ = b.listen(ctx) // renewals of the membership log why it fails
		if conn != nil {
			b.node.changed() // what was missed
			continue
		}
		select {
		case <-time.After(reconnectGap):
		case <-ctx.Done():
		}
	}
}

func (b *bus) receiveFrom(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, listenIdle)
		received, err := conn.WaitForNotification(waiting)
		idle := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
			b.dispatch(received.Payload)
		case idle && ctx.Err() == nil:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// poll reads the notices that other nodes have stored for this one, until ctx ends.
func (b *bus) poll(ctx context.Context) {
	clock.Every(ctx, pollPace, func() {
		rows, _ := b.node.pool.Query(ctx, `
			WITH taken AS (DELETE FROM notices WHERE node_id = $1 RETURNING id, body)
			SELECT body FROM taken ORDER BY id`, b.node.ID())
		payloads, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return // renewals of the membership log why
		}
		for _, payload := range payloads {
			b.dispatch(payload)
		}
	})
}

// dispatch calls the handlers of the notices in a payload that are for this node.
func (b *bus) dispatch(payload string) {
	me := b.node.ID()
	for _, notice := range decode(payload) {
		if notice.From == me || notice.To != everyNode && notice.To != me {
			continue
		}
		b.mu.Lock()
		handlers := slices.Clone(b.handlers[notice.Topic])
		b.mu.Unlock()
		for _, f := range handlers {
			f(Notice{From: notice.From, Topic: notice.Topic, Body: notice.Body})
		}
	}
}

// send sends what was published until ctx ends.
func (b *bus) send(ctx context.Context) {
	for {
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
		if err := b.sendUnsent(ctx); err != nil && ctx.Err() == nil {
			b.node.log.Warn("notices not sent", "error", err)
		}
		select {
		case <-time.After(publishPace):
		case <-ctx.Done():
			return
		}
	}
}

func (b *bus) sendUnsent(ctx context.Context) error {
	b.mu.Lock()
	notices := b.unsent
	b.unsent = nil
	b.mu.Unlock()
	if len(notices) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.node.config.TTL/2)
	defer cancel()
	notifies, polls := b.modes()
	var errs []error
	if notifies {
		errs = append(errs, b.notify(ctx, notices))
	}
	if polls {
		errs = append(errs, b.store(ctx, notices))
	}
	return errors.Join(errs...)
}

// modes reports how other nodes receive notices. One that has joined meanwhile misses some.
func (b *bus) modes() (notifies, polls bool) {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	for _, m := range b.node.live {
		if m.ID != b.node.id {
			notifies = notifies || m.Bus == Notify
			polls = polls || m.Bus == Poll
		}
	}
	return notifies, polls
}

// sendNow sends a notice to all nodes after the publisher has ended.
func (b *bus) sendNow(ctx context.Context, topic string) error {
	if err := b.publish(everyNode, topic, ""); err != nil {
		return err
	}
	return b.sendUnsent(ctx)
}

// notify sends notices with NOTIFY, and does not wait for the disk.
func (b *bus) notify(ctx context.Context, notices []wire) error {
	_, err := b.node.pool.Exec(ctx, `
		SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload)
		FROM unnest($2::text[]) AS payload`, pgChannel, encode(notices))
	return err
}

// store stores notices for the nodes that poll.
func (b *bus) store(ctx context.Context, notices []wire) error {
	batch := &pgx.Batch{}
	for len(notices) > 0 {
		to := notices[0].To
		same := slices.IndexFunc(notices, func(notice wire) bool { return notice.To != to })
		if same < 0 {
			same = len(notices)
		}
		batch.Queue(`
			INSERT INTO notices (node_id, body)
			SELECT id, body FROM nodes, unnest($1::text[]) AS body
			WHERE dead_at IS NULL AND bus = 'poll' AND id <> $2 AND ($3::bigint = 0 OR id = $3)`, encode(notices[:same]), b.node.ID(), to)
		notices = notices[same:]
	}
	return b.node.pool.SendBatch(ctx, batch).Close()
}

// encode puts notices into as few payloads as they fit in: JSON lists.
func encode(notices []wire) (payloads []string) {
	var list []byte
	for _, notice := range notices {
		text, _ := json.Marshal(notice) // publish has tried it
		if len(list) > 0 && len(list)+len(text)+2 > maxPayload {
			payloads = append(payloads, string(append(list, ']')))
			list = nil
		}
		separator := byte(',')
		if len(list) == 0 {
			separator = '['
		}
		list = append(append(list, separator), text...)
	}
	return append(payloads, string(append(list, ']')))
}

// decode returns the notices of a payload, none if another program has sent it.
func decode(payload string) (notices []wire) {
	_ = json.Unmarshal([]byte(payload), &notices)
	return notices
}
