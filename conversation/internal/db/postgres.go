package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"strings"
	"time"

	"parley/cluster"
	"parley/conversation/internal/postgres"
)

// Node describes a process to the other nodes that have a PostgreSQL database open. It is not used with SQLite.
type Node struct {
	Name    string // a name for people; "" = the name of the machine
	URL     string // where the other nodes reach it over HTTP; "" = nowhere
	Version string // the version of the program
	Command string // "run" for a gateway that works sessions; otherwise the subcommand
}

// postgresServer is the engine of a database on a PostgreSQL server.
type postgresServer struct {
	url     string // without a password
	log     *slog.Logger
	node    *cluster.Node
	readers *sql.DB
	shared  *postgres.Shared // for short reads
	lanes   []*lane
	locks   *roleLocks
	damages *damages
	outage  *outage

	stopAnalyzing func() // nil before startAnalyzing
}

const (
	laneCount   = 2
	readerCount = 3               // connections for reading, in addition to the shared one for short reads
	readersIdle = 5 * time.Minute // how long an unused connection for reading is kept
)

// IsURL reports whether the path of a database is the URL of a PostgreSQL database, not the path of a file.
func IsURL(path string) bool { return postgres.IsURL(path) }

func openPostgres(ctx context.Context, config Config) (*DB, error) {
	s := &postgresServer{url: postgres.Redact(config.Path), log: config.Log, damages: newDamages(config.Log)}
	chores, err := s.open(ctx, config)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open %s: %w", s.url, explainOpening(err))
	}
	return &DB{engine: s, readers: s.readers, chores: chores}, nil
}

func (s *postgresServer) open(ctx context.Context, config Config) (*background, error) {
	to, err := serverConfig(config)
	if err != nil {
		return nil, err
	}
	if err := s.adaptToPooler(ctx, to); err != nil {
		return nil, err
	}
	connector := postgres.NewConnector(to)
	s.readers, s.shared = sql.OpenDB(connector), connector.Shared()
	s.readers.SetMaxOpenConns(readerCount)
	s.readers.SetMaxIdleConns(readerCount)
	s.readers.SetConnMaxIdleTime(readersIdle)
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if err := migratePostgres(ctx, s.log, to); err != nil {
		return nil, err
	}
	if _, err := s.readers.ExecContext(ctx, `INSERT INTO roles (name) VALUES ('chores') ON CONFLICT (name) DO NOTHING`); err != nil { // for lockChores
		return nil, err
	}
	schema, err := NewestServerSchema()
	if err != nil {
		return nil, err
	}
	s.node, err = cluster.Join(ctx, cluster.Config{
		Database: to, Name: config.Node.Name, URL: config.Node.URL, Version: config.Node.Version, Command: config.Node.Command,
		Schema: schema, Lanes: laneCount, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	if err := refuseHalfMoved(ctx, s.readers); err != nil {
		return nil, err
	}
	s.outage = &outage{log: s.log, url: s.url}
	s.locks = &roleLocks{node: s.node, held: map[string]*roleLock{}}
	s.stopAnalyzing = s.startAnalyzing()
	return s.openLanes(to, config.Chores), nil
}

// serverConfig returns the config for connections to the server, with the password from the file Secret if it is set.
func serverConfig(config Config) (*postgres.Config, error) {
	to, err := postgres.ParseURL(config.Path)
	if err != nil || config.Secret == "" {
		return to, err
	}
	password, err := os.ReadFile(config.Secret)
	if err != nil {
		return nil, fmt.Errorf("database_password_file: %w", err)
	}
	to.Password = strings.TrimSpace(strings.TrimPrefix(string(password), "\ufeff")) // a byte order mark, which some editors write
	if to.Password == "" {
		return nil, fmt.Errorf("database_password_file: %s is empty: write the password of the database's user into it", config.Secret)
	}
	return to, nil
}

// adaptToPooler makes connections work without prepared statements if a connection pooler loses them.
func (s *postgresServer) adaptToPooler(ctx context.Context, to *postgres.Config) error {
	if to.DefaultQueryExecMode != postgres.Prepared {
		return nil
	}
	keeps, err := postgres.KeepsStatements(ctx, writing(to))
	if err == nil && !keeps {
		to.DefaultQueryExecMode = postgres.Unprepared
		s.log.Info("connection pooler keeps no prepared statements, working without them; a direct connection is faster", "database", s.url)
	}
	return err
}

// writing returns the config for connections that write.
func writing(to *postgres.Config) *postgres.Config {
	to = to.Copy()
	for name, value := range cluster.SessionSettings(0) {
		to.RuntimeParams[name] = value
	}
	to.RuntimeParams["statement_timeout"] = fmt.Sprint(statementWait.Milliseconds())
	return to
}

// openLanes makes the lanes. The chores run on the first one.
func (s *postgresServer) openLanes(to *postgres.Config, list []Chore) *background {
	connector := postgres.NewConnector(writing(to))
	chores := &background{
		log: s.log, list: newChores(list), skip: func(failed *choreError) error { return failed }, rested: func() {},
		lock: lockChores, again: choreRetry,
	}
	s.lanes = append(s.lanes, newLane(s.node.Lane(0), connector, s.outage, s.forsake, chores))
	for number := 1; number < laneCount; number++ {
		s.lanes = append(s.lanes, newLane(s.node.Lane(number), connector, s.outage, s.forsake, nil))
	}
	chores.start(s.lanes[0].group)
	return chores
}

// forsake closes the connections for reading that nobody uses, so that new ones are opened. A server that takes no writes may be a
// standby, which lags behind the server that does.
func (s *postgresServer) forsake() {
	s.readers.SetMaxIdleConns(-1) // closes them
	s.readers.SetMaxIdleConns(readerCount)
	s.shared.Forsake()
}

// lockChores keeps other processes, and other lanes of this one, from running chores until the transaction ends.
func lockChores(ctx context.Context, tx Tx, wait bool) (free bool, err error) {
	const row = `SELECT term FROM roles WHERE name = 'chores' FOR UPDATE`
	statement := row
	if !wait {
		statement += ` SKIP LOCKED`
	}
	var term int64
	err = tx.QueryRowContext(ctx, statement).Scan(&term)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// check returns an error if the server is too old or the database has another encoding than UTF-8. It warns of settings that can
// lose messages.
func (s *postgresServer) check(ctx context.Context) error {
	var version int
	var encoding, fsync, synchronous string
	err := s.readers.QueryRowContext(ctx, `SELECT CAST(current_setting('server_version_num') AS bigint), current_setting('server_encoding'),
		current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&version, &encoding, &fsync, &synchronous)
	if err != nil {
		return err
	}
	if version < oldestVersion*10_000 {
		return fmt.Errorf("the server is PostgreSQL %d, and the gateway needs %d or later: upgrade the server", version/10_000, oldestVersion)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s, which can't hold what people write: create one with ENCODING 'UTF8'", encoding)
	}
	if fsync == "off" {
		s.log.Warn("the database server runs with fsync off: a crash of its machine can lose messages and damage the database", "database", s.url)
	}
	if synchronous == "off" {
		s.log.Warn("the database server runs with synchronous_commit off: a crash of it can lose messages that platforms take for stored", "database", s.url)
	}
	return nil
}

// oldestVersion is the oldest version of PostgreSQL that is supported.
const oldestVersion = 14

func (s *postgresServer) name() string { return s.url }

// laneOf returns the lane for writes of a session, or the first lane for "".
func (s *postgresServer) laneOf(session string) *lane {
	if session == "" {
		return s.lanes[0]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(session)) // never fails
	return s.lanes[h.Sum32()%uint32(len(s.lanes))]
}

func (s *postgresServer) write(ctx context.Context, session string, what work) error {
	return s.laneOf(session).group.write(ctx, what)
}

func (s *postgresServer) writeLazily(ctx context.Context, session string, what work) error {
	return s.laneOf(session).group.writeLazily(ctx, what)
}

// owned returns a check that the membership to which ctx belongs owns the session. The check locks the session's row, so
// that no other node takes the session over before the end of the transaction. The fence of the lane alone does not
// suffice: a node that has joined again may write, but must not write what it began in its former membership.
func (s *postgresServer) owned(ctx context.Context, session string) task {
	member := cluster.MembershipOf(ctx)
	if member == 0 {
		return nil
	}
	return func(ctx context.Context, tx Tx) error {
		return Require(ctx, tx, func() error { return &disownedError{"works the session " + session} }, `
			SELECT 1 FROM sessions s JOIN nodes n ON n.id = s.owner AND n.dead_at IS NULL
			WHERE s.key = ? AND s.owner = ? FOR NO KEY UPDATE OF s`, session, member)
	}
}

// held returns a check that this node still has the role to which ctx belongs, or nil if ctx belongs to none. After the check,
// no other node gets the role before the end of the transaction.
func (s *postgresServer) held(ctx context.Context) task {
	role := cluster.RoleOf(ctx)
	if role == nil {
		return nil
	}
	query, args := role.Fence()
	return func(ctx context.Context, tx Tx) error {
		return Require(ctx, tx, func() error {
			role.Lost()
			return &disownedError{"may have the role " + role.Name}
		}, query, args...)
	}
}

// disownedError says that a write was refused because this node does not own the session, or does not have the role. It is a
// cluster.ErrLost.
type disownedError struct{ other string } // what another node does instead, as the predicate of a sentence

func (e *disownedError) Error() string {
	return "another node " + e.other + " meanwhile; nothing was stored"
}

func (e *disownedError) Is(target error) bool { return target == cluster.ErrLost }

// read implements DB.Read, by a transaction that sees one state of the database.
func (s *postgresServer) read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	conn, err := s.readers.Conn(ctx)
	if err != nil {
		return Explain(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ`); err != nil {
		return Explain(err)
	}
	end := `COMMIT`
	if err = do(ctx, conn); err != nil {
		end = `ROLLBACK`
	}
	_, ended := conn.ExecContext(context.WithoutCancel(ctx), end)
	return Explain(errors.Join(err, ended))
}

// short executes a query on the shared connection or, if that is not possible, on a connection of the pool.
func (s *postgresServer) short(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := s.shared.Query(ctx, query, args...)
	if errors.Is(err, postgres.ErrNotShared) {
		return s.readers.QueryContext(postgres.EndedByDriver(ctx), query, args...)
	}
	return rows, err
}

// markDaemon has nothing to do: the other processes see the Command of this node.
func (s *postgresServer) markDaemon() error { return nil }

const leaveWait = 2 * time.Second // how long leaving the cluster may take

func (s *postgresServer) close() error {
	var errs []error
	if s.stopAnalyzing != nil {
		s.stopAnalyzing()
	}
	for _, lane := range s.lanes {
		errs = append(errs, lane.close())
	}
	if s.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
		errs = append(errs, s.node.Leave(ctx))
		cancel()
	}
	if s.readers != nil {
		errs = append(errs, s.shared.Close(), s.readers.Close())
	}
	return errors.Join(errs...)
}
