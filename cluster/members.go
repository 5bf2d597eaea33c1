package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// changeTopic is the topic of notices that members or roles have changed.
const changeTopic = "members"

// Member is a node that is not dead.
type Member struct {
	ID        int64
	Name      string
	URL       string // where the node's HTTP server is reached; "" if it has none
	Version   string
	Command   string // Serves, or a subcommand
	Bus       Mode
	Draining  bool // the node hands its sessions over and takes no others
	Joined    time.Time
	Heartbeat time.Duration // time since the latest renewal
	Load                    // as the node reported it with the latest renewal
	Roles     []string      // roles that the node holds; only from Members
	Sessions  int           // number of sessions that the node works; only from Members

	expires int64 // when the membership expires, in milliseconds of the database's clock
	expired bool
	isAhead bool      // the membership expires later than any renewal until now lets it: the database's clock was put back since
	read    time.Time // when the member was read, by the database's clock
}

// State returns what the node is doing, for people: "serving", "draining", or the command that the process runs.
func (m Member) State() string {
	switch {
	case m.Command != Serves:
		return m.Command
	case m.Draining:
		return "draining"
	}
	return "serving"
}

// HasRenewedSince reports whether the node has renewed its membership since it was read as before.
func (m Member) HasRenewedSince(before Member) bool { return m.expires != before.expires }

// Load is what a node answers, and how much it has to do.
type Load struct {
	Serves []string // bots and channels, none with a space in it; none before the node works sessions
	Runs   int      // number of runs that call the model
	Slots  int      // how many runs may call the model at once; 0 = the node has not told
}

// ReportLoad has f called with each renewal, and to choose nodes for work: only those are given any of it
// that serve all that this one does. f must not block.
func (n *Node) ReportLoad(f func() Load) {
	n.mu.Lock()
	n.load = f
	n.mu.Unlock()
	n.CheckMembership()
}

// ownLoad returns what ReportLoad's f returns.
func (n *Node) ownLoad() Load {
	n.mu.Lock()
	f := n.load
	n.mu.Unlock()
	if f == nil {
		return Load{}
	}
	return f()
}

// takers returns the nodes that may be given work of this one, in the order of their ids.
func (n *Node) takers() []Member {
	self := Member{ID: n.ID(), Load: n.ownLoad()}
	return slices.DeleteFunc(n.Live(), func(m Member) bool { return m.ID != self.ID && !m.MayTakeFrom(self) || !m.takesWork() })
}

const selectMembers = `
	SELECT id, name, url, version, command, bus, draining, serves, runs, slots, joined_at, expires_at, ` + databaseTime + `
	FROM nodes WHERE dead_at IS NULL ORDER BY id`

func (n *Node) scanMember(row pgx.CollectableRow) (m Member, err error) {
	var bus, serves string
	var draining, joined, now int64
	err = row.Scan(&m.ID, &m.Name, &m.URL, &m.Version, &m.Command, &bus, &draining, &serves, &m.Runs, &m.Slots, &joined, &m.expires, &now)
	m.Bus, m.Serves = Mode(bus), strings.Fields(serves)
	m.Draining = draining != 0
	m.Joined = time.UnixMilli(joined)
	m.Heartbeat = n.config.TTL - time.Duration(m.expires-now)*time.Millisecond
	m.expired, m.isAhead, m.read = m.expires < now, m.expires > now+n.config.TTL.Milliseconds(), time.UnixMilli(now)
	return m, err
}

// Members reads all nodes that are not dead, in the order in which they joined, with their roles and the number of
// their sessions.
func (n *Node) Members(ctx context.Context) ([]Member, error) {
	rows, _ := n.pool.Query(ctx, selectMembers) // CollectRows returns the error
	members, err := pgx.CollectRows(rows, n.scanMember)
	if err != nil {
		return nil, err
	}
	roles, err := n.rolesByNode(ctx)
	if err != nil {
		return nil, err
	}
	sessions, err := n.sessionsByNode(ctx)
	for i := range members {
		members[i].Roles, members[i].Sessions = roles[members[i].ID], sessions[members[i].ID]
	}
	return members, err
}

// sessionsByNode counts the sessions that each node works.
func (n *Node) sessionsByNode(ctx context.Context) (map[int64]int, error) {
	rows, _ := n.pool.Query(ctx, `SELECT owner, count(*) FROM sessions WHERE owner IS NOT NULL GROUP BY owner`)
	byNode := map[int64]int{}
	var id int64
	var count int
	_, err := pgx.ForEachRow(rows, []any{&id, &count}, func() error {
		byNode[id] = count
		return nil
	})
	return byNode, err
}

// Live returns the nodes that serve and were alive at this node's latest renewal, itself among them.
func (n *Node) Live() []Member {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.live), func(m Member) bool { return m.Command != Serves || m.expired })
}

// OnChange has f called after nodes joined, left or died and after roles were released, now
// and then also without a reason. f must not block. It is called before Join has returned at the earliest.
func (n *Node) OnChange(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onChanges = append(n.onChanges, f)
}

// changed reports a change of members or roles to all who wait for one.
func (n *Node) changed() {
	n.changes.send()
	n.mu.Lock()
	handlers := slices.Clone(n.onChanges)
	n.mu.Unlock()
	for _, f := range handlers {
		f()
	}
}

// setLive stores the members that a renewal has read, and whether this one is to drain.
func (n *Node) setLive(members []Member) {
	n.mu.Lock()
	same := slices.EqualFunc(n.live, members, func(a, b Member) bool {
		return a.ID == b.ID && a.Draining == b.Draining && a.expired == b.expired && slices.Equal(a.Serves, b.Serves)
	})
	n.live = members
	clear(n.given)
	if i := slices.IndexFunc(members, func(m Member) bool { return m.ID == n.id }); i >= 0 {
		n.draining = members[i].Draining
	}
	n.mu.Unlock()
	if !same {
		n.changed()
	}
}
