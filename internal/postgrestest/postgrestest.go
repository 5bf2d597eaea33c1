// Package postgrestest runs PostgreSQL servers for tests. [Database] returns the URL of an empty
// database on a server that all tests of a test binary share. [Start] starts a server that a
// test has for itself, and which it may stop and restart. [Run] starts one for a program that measures.
//
// Where PostgreSQL is not installed, tests are skipped.
package postgrestest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Options says how Start runs a server.
type Options struct {
	Fsync    bool     // whether a commit waits for the disk; without it a server is faster
	Password bool     // whether all users but parley are asked for a password
	Settings []string // further settings of postgresql.conf, such as "max_connections = 20"
}

// Server is a running PostgreSQL server. It ends with the process that started it, however that
// ends, and its folder is removed.
type Server struct {
	dir       string              // holds the data, the socket and the log
	bin       string              // folder of pg_ctl and initdb
	account   *syscall.Credential // nil: the user of the test; PostgreSQL refuses to run as root
	databases atomic.Int64        // that were created
	alive     *os.File            // the reaper ends the server when this pipe closes
}

// shared is the server of Database, which the first test starts.
var shared = sync.OnceValues(func() (*Server, error) { return start(Options{}) })

// Database creates an empty database on the shared server and returns its URL. It is dropped when the
// test ends. [Template] gives databases that have tables already.
func Database(t testing.TB) string {
	t.Helper()
	skipWithout(t)
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return server.Database(t)
}

// Start starts a server that is stopped when the test ends.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	skipWithout(t)
	server, err := start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// Run starts a server for a program that is not a test.
func Run(options Options) (*Server, error) { return start(options) }

// Close stops the server and removes its folder.
func (s *Server) Close() {
	_ = s.stop("immediate") // its folder goes anyway
	s.alive.Close()
}

// Database creates an empty database, which is dropped when the test ends, and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "")
}

// URL returns the URL of a database of the server. It names a Unix socket.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://parley@/%s?host=%s", database, url.QueryEscape(s.dir))
}

// socketName is the name of a server's socket in its folder.
const socketName = ".s.PGSQL.5432"

// Stop ends the server: with mode "fast" as an operator does, with "immediate" as a crash does.
func (s *Server) Stop(t testing.TB, mode string) {
	t.Helper()
	if err := s.stop(mode); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server again after Stop.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// patience is the time in seconds that a server may take to start, perhaps after a crash, or to stop. It is far more than a
// server needs.
const patience = "300"

func (s *Server) stop(mode string) error {
	return s.run("pg_ctl", "-D", s.data(), "-m", mode, "-w", "-t", patience, "stop")
}

func (s *Server) start() error {
	return s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.dir, "log"), "-w", "-t", patience, "-s", "start")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// start makes a data folder, starts a server on it, and a process that outlives this one to stop it.
func start(options Options) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "parley-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if os.Getuid() == 0 {
		if s.account, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	if err := s.own(dir); err != nil {
		return nil, err
	}
	if err := s.reap(); err != nil {
		return nil, err
	}
	if err := s.makeData(); err != nil {
		return nil, err
	}
	if err := s.configure(options); err != nil {
		return nil, err
	}
	return s, s.start()
}

// configure appends the settings of tests to postgresql.conf: a socket in the folder instead of a
// port, and little memory.
func (s *Server) configure(options Options) error {
	settings := []string{
		"listen_addresses = ''",
		"unix_socket_directories = '" + s.dir + "'",
		"max_connections = 200",
		"shared_buffers = '32MB'",
		"jit = off",
	}
	if !options.Fsync {
		settings = append(settings, "fsync = off", "full_page_writes = off")
	}
	if options.Password {
		const rules = "local all parley trust\nlocal all all scram-sha-256\n"
		if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o600); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(strings.Join(slices.Concat(settings, options.Settings), "\n") + "\n")
	return err
}

// reap starts a shell that stops the server and removes its folder once this process has ended.
func (s *Server) reap() error {
	ended, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ended.Close()
	cmd := s.command("/bin/sh", "-c",
		`read -r _; "$0/pg_ctl" -D "$1/data" -m immediate -w stop; rm -rf "$1"`, s.bin, s.dir)
	cmd.Stdin = ended
	cmd.SysProcAttr.Setpgid = true // so that an interrupt at the terminal does not reach it
	if err := cmd.Start(); err != nil {
		return err
	}
	s.alive = alive
	go cmd.Wait()
	return nil
}

func (s *Server) run(name string, args ...string) error {
	// The server inherits the output, so it is a file: a pipe would be waited for.
	output, err := os.CreateTemp("", "parley-postgres-output-")
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd := s.command(filepath.Join(s.bin, name), args...)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(output.Name())
		logged, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%s: %w\n%s%s", name, err, said, logged)
	}
	return nil
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	return cmd
}

// unprivileged returns the account that the server runs as where the tests run as root.
func unprivileged() (*syscall.Credential, error) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// Installed reports whether PostgreSQL is installed on this machine.
func Installed() bool {
	_, err := binaries()
	return err == nil
}

// IsSelected reports whether tests that run on either engine are to run on PostgreSQL: whether the environment
// variable PARLEY_TEST_DATABASE is "postgres".
func IsSelected() bool { return os.Getenv("PARLEY_TEST_DATABASE") == "postgres" }

// skipWithout skips a test where PostgreSQL is not installed. With -short it skips those that run on PostgreSQL alone, too.
func skipWithout(t testing.TB) {
	t.Helper()
	if testing.Short() && !IsSelected() {
		t.Skip("skipped with -short: it starts a PostgreSQL server")
	}
	if _, err := binaries(); err != nil {
		t.Skip(err)
	}
}

// binaries returns the folder of PostgreSQL's programs: that of pg_ctl in PATH, or the newest one
// that Debian has installed.
func binaries() (string, error) {
	if path, err := exec.LookPath("pg_ctl"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // a link may stand alone in its folder
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl") // the pattern is valid
	if len(found) == 0 {
		return "", fmt.Errorf("PostgreSQL is not installed; on Debian: apt-get install postgresql")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// version returns the number in /usr/lib/postgresql/15/bin/pg_ctl.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}
