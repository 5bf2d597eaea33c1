package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Template is a database that tests get copies of, so that its tables are made once.
type Template struct {
	// Make fills the empty database at a URL. It leaves no connection to it open.
	Make func(url string) error

	once sync.Once
	name string
	err  error
}

// Database creates a copy of the template on the shared server and returns its URL.
func (e *Template) Database(t testing.TB) string {
	t.Helper()
	skipWithout(t)
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	e.once.Do(func() { e.name, e.err = server.makeTemplate(e.Make) })
	if e.err != nil {
		t.Fatal(e.err)
	}
	return server.database(t, "TEMPLATE "+e.name)
}

func (s *Server) makeTemplate(fill func(url string) error) (name string, err error) {
	if name, err = s.create(context.Background(), ""); err != nil {
		return "", err
	}
	return name, fill(s.URL(name))
}

// NewDatabase creates an empty database and returns its URL.
func (s *Server) NewDatabase(ctx context.Context) (url string, err error) {
	name, err := s.create(ctx, "")
	return s.URL(name), err
}

func (s *Server) create(ctx context.Context, options string) (name string, err error) {
	name = s.newName()
	return name, s.execute(ctx, "CREATE DATABASE "+name+" "+options)
}

// database creates a database, which is dropped when the test ends.
func (s *Server) database(t testing.TB, options string) string {
	t.Helper()
	name, err := s.create(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a server that was stopped loses its folder anyway
		_ = s.execute(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
	})
	return s.URL(name)
}

func (s *Server) newName() string { return fmt.Sprintf("test_%d", s.databases.Add(1)) }

// execute executes a statement outside of the databases of tests.
func (s *Server) execute(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// makeData makes the files of an empty server. The first process makes them with initdb, which takes
// a second of the processor; the others copy what it has made.
func (s *Server) makeData() error {
	home, err := s.keptFolder()
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(home, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which releases it
	if err := errors.Join(s.own(lock.Name()), syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)); err != nil {
		return err
	}
	kept := filepath.Join(home, "data")
	if _, err := os.Stat(kept); err != nil {
		draft := kept + ".draft"
		err := s.run("initdb", "-D", draft, "-U", "parley", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
		if err != nil {
			return errors.Join(err, os.RemoveAll(draft))
		}
		if err := os.Rename(draft, kept); err != nil {
			return err
		}
	}
	return s.command("cp", "-R", kept, s.data()).Run()
}

// keptFolder returns a folder of the server's account and version, which outlives this process.
func (s *Server) keptFolder() (string, error) {
	version, err := s.command(filepath.Join(s.bin, "postgres"), "--version").Output()
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(version)) // postgres (PostgreSQL) 15.18 (Debian …)
	uid := os.Getuid()
	if s.account != nil {
		uid = int(s.account.Uid)
	}
	home := filepath.Join(os.TempDir(), fmt.Sprintf("parley-initdb-%s-%d", fields[min(2, len(fields)-1)], uid))
	if err := os.Mkdir(home, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return home, s.own(home)
}

// own gives a file to the account of the server.
func (s *Server) own(path string) error {
	if s.account == nil {
		return nil
	}
	return os.Chown(path, int(s.account.Uid), int(s.account.Gid))
}
