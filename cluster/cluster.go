// Package cluster lets several processes, the nodes, share one PostgreSQL database.
//
// [Join] makes this process a node. It renews its membership every second; a node that no longer
// does so is declared dead by the others, and from then on nothing that it writes is committed
// ([Lane]). What only one node may do at a time is a role ([Node.Hold]). [Node.Publish] tells the
// other nodes about something, [Node.Pass] paces what all of them do together, [Node.Place]
// chooses the node for a piece of work, and [Node.Drain] has a node hand its work over.
//
// All times are those of the database's clock, or durations on the clock of this process, so
// a wrong clock of a machine does no harm.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrFenced means that this node was declared dead, so that its transaction may not be
	// committed: other nodes may already do its work.
	ErrFenced = errors.New("the other nodes have declared this one dead; nothing was stored")

	// ErrLost is the cause of contexts that end because this node could not renew its
	// membership in time.
	ErrLost = errors.New("this node has lost contact with the database")

	errHandsOver = errors.New("this node hands its work over")
)

const (
	defaultHeartbeat = time.Second
	defaultTTL       = 5 * time.Second
	defaultLanes     = 2

	maxConns = 3 // connections of a node, beside the one for notices and those of its lanes
)

// Config describes a node. Only Database is required.
type Config struct {
	Database *pgx.ConnConfig // how to connect; Join copies it

	Name    string // name of the node for people; "" = the name of the machine
	URL     string // URL at which other nodes and operators reach the node's HTTP server; "" = none
	Version string // version of the program
	Command string // Serves, or the subcommand that the process runs
	Schema  int64  // the newest version of the schema that the program knows; 0 = it is not checked

	Lanes     int           // number of connections of this process that write; 0 = 2
	Bus       Mode          // how notices travel; "" = whichever way works
	Heartbeat time.Duration // time between two renewals of the membership; 0 = 1 s
	TTL       time.Duration // time after which a membership that is not renewed expires; 0 = 5 s

	Now func() time.Time // the clock of this process, which may be wrong, see Node.At; nil = time.Now
	Log *slog.Logger     // nil = nothing is logged
}

// Serves is the Command of nodes that work sessions. All others only read and write.
const Serves = "run"

// Node is this process among the nodes of its database. It is safe for concurrent use.
type Node struct {
	config    Config
	log       *slog.Logger
	pool      *pgxpool.Pool
	bus       *bus
	observer  observer
	renewals  chan struct{} // asks for a renewal at once
	changes   broadcast     // signals changes of members and roles
	confirmed broadcast     // signals that a renewal was tried
	stop      context.CancelFunc
	stopped   sync.WaitGroup
	onChanges []func()
	claims    claims

	mu       sync.Mutex
	id       int64
	draining bool
	ahead    time.Duration // how much the database's clock is ahead of this process's
	renewed  time.Time     // when the latest successful renewal was sent
	failing  bool          // the latest renewal has failed
	alive    context.Context
	lose     context.CancelCauseFunc // ends alive
	expiry   *time.Timer             // ends alive when renewals fail; nil before the first renewal that counts
	live     []Member                // members as of the latest renewal, in the order of their IDs
	held     map[string]bool         // names of the roles that this node holds
	given    map[int64]int           // number of sessions that FreestNode has sent to each node since the latest renewal
	load     func() Load             // returns what this node works on; nil = not known
}

// Join makes this process a node of the database, whose tables exist. It returns when the
// membership is stored and the bus is tested. Leave ends it.
func Join(ctx context.Context, config Config) (*Node, error) {
	config = config.withDefaults()
	settings, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	settings.ConnConfig = config.Database
	settings.MaxConns = maxConns
	settings.MinConns = 0
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	n := &Node{
		config:   config,
		log:      config.Log,
		pool:     pool,
		observer: newObserver(config.TTL),
		renewals: make(chan struct{}, 1),
		held:     map[string]bool{},
		given:    map[int64]int{},
		claims:   claims{byName: map[string]*claim{}, doubtful: map[string]int64{}, asking: make(chan struct{}, maxAsking)},
	}
	n.alive, n.lose = context.WithCancelCause(context.Background())
	n.lose(ErrLost) // until the first renewal that counts
	n.bus = newBus(n)
	if err := n.start(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	if err := n.bus.start(ctx, running); err != nil {
		stop()
		n.stopped.Wait()
		return err
	}
	n.Subscribe(changeTopic, func(Notice) {
		n.changed()
		n.CheckMembership() // who is there now
	})
	if err := n.join(ctx); err != nil {
		stop()
		n.stopped.Wait()
		return fmt.Errorf("join the cluster: %w", err)
	}
	if _, err := n.renew(ctx); err != nil {
		n.log.Warn("membership not renewed", "error", err)
	}
	_, err := n.pool.Exec(ctx, `DELETE FROM nodes WHERE dead_at < `+databaseTime+` - $1`, int64(keptFor))
	if err != nil {
		n.log.Warn("rows of dead nodes not deleted", "error", err)
	}
	n.Publish(changeTopic, "")
	n.stopped.Go(func() { n.renewUntil(running) })
	return nil
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name, _ = os.Hostname() // "" is a name, too
	}
	if c.Lanes == 0 {
		c.Lanes = defaultLanes
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Database = c.Database.Copy()
	// Unnamed statements also work through PgBouncer.
	c.Database.DefaultQueryExecMode = pgx.QueryExecModeExec
	for name, value := range SessionSettings(c.TTL) {
		c.Database.RuntimeParams[name] = value
	}
	return c
}

// SessionSettings returns the settings of connections that write. They make the server end a
// transaction whose client is paused or gone within ttl, 0 = 5 s, since it holds locks that
// another node needs to take over.
func SessionSettings(ttl time.Duration) map[string]string {
	if ttl == 0 {
		ttl = defaultTTL
	}
	milliseconds := fmt.Sprint(ttl.Milliseconds())
	return map[string]string{
		"idle_in_transaction_session_timeout": milliseconds,
		"tcp_user_timeout":                    milliseconds,
	}
}

// Leave ends the membership, so that other nodes take over at once what this one had. The
// caller has stopped working. When the database can't be reached, it returns an error and
// the membership expires by itself.
func (n *Node) Leave(ctx context.Context) error {
	n.stop()
	n.stopped.Wait()
	defer n.pool.Close()
	n.mu.Lock()
	id := n.id
	if n.expiry != nil {
		n.expiry.Stop()
	}
	n.lose(ErrLost)
	n.mu.Unlock()
	if _, err := n.bury(ctx, id, anyExpiry); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return n.bus.sendNow(ctx, changeTopic)
}

// ID returns the number of this node's membership. It changes when the node was declared
// dead and has joined anew.
func (n *Node) ID() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// Name returns the node's name.
func (n *Node) Name() string { return n.config.Name }

// Bus returns how notices reach this node.
func (n *Node) Bus() Mode { return n.bus.mode }
