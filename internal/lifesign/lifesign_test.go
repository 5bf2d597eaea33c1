package lifesign_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley/internal/lifesign"
)

func databaseIn(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "conversations.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func serve(t *testing.T, path string, answer func(context.Context) []byte) *lifesign.Server {
	t.Helper()
	s, err := lifesign.Serve(path, answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func saying(text string) func(context.Context) []byte {
	return func(context.Context) []byte { return []byte(text) }
}

// ask returns the answers of the daemons.
func ask(t *testing.T, path string) (said []string) {
	t.Helper()
	answers, err := lifesign.Ask(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil || a.PID != os.Getpid() && a.PID != 0 {
			t.Errorf("%+v", a)
		}
		said = append(said, string(a.Body))
	}
	return said
}

func TestEveryDaemonOfADatabaseAnswers(t *testing.T) {
	t.Parallel()
	path, other := databaseIn(t, t.TempDir()), databaseIn(t, t.TempDir())
	if said := ask(t, path); said != nil {
		t.Errorf("without a daemon: %q", said)
	}
	first := serve(t, path, saying("one"))
	serve(t, path, saying("two"))
	serve(t, other, saying("of another folder"))
	serve(t, path+"2", saying("of another name"))
	if said := ask(t, path); !slices.Equal(said, []string{"one", "two"}) {
		t.Errorf("said: %q", said)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // the database is taken away
		t.Fatal(err)
	}
	if said := ask(t, path); !slices.Equal(said, []string{"two"}) {
		t.Errorf("after the end of one: %q", said)
	}
	serve(t, path, saying("three"))
	if said := ask(t, path); !slices.Equal(said, []string{"three", "two"}) {
		t.Errorf("with another: %q", said)
	}
}

// A database on a server is identified by its URL.
func TestDaemonOfADatabaseOnAServerAnswers(t *testing.T) {
	t.Parallel()
	url := "postgres://parley@db.example.com/" + filepath.Base(t.TempDir()) + t.Name()
	serve(t, url, saying("on a server"))
	if said := ask(t, url); !slices.Equal(said, []string{"on a server"}) {
		t.Errorf("said: %q", said)
	}
	if said := ask(t, url+"2"); said != nil {
		t.Errorf("of another database: %q", said)
	}
}

func TestHangingDaemonIsDistinguishedFromNone(t *testing.T) {
	t.Parallel()
	path, asked := databaseIn(t, t.TempDir()), make(chan struct{})
	serve(t, path, func(ctx context.Context) []byte {
		close(asked)
		<-ctx.Done()
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	go func() { <-asked; cancel() }()
	answers, err := lifesign.Ask(ctx, path, 0)
	if err != nil || len(answers) != 1 || answers[0].Err == nil {
		t.Errorf("%+v, %v", answers, err)
	}
}

// A container's health check, which has no configuration, asks all daemons of its user.
func TestEveryDaemonOfTheUserAnswers(t *testing.T) {
	words := []string{"first of two databases", "second of two databases"}
	for _, text := range words {
		serve(t, databaseIn(t, t.TempDir()), saying(text))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // for those of other tests
	defer cancel()
	answers, err := lifesign.AskAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range words {
		if !slices.ContainsFunc(answers, func(a lifesign.Answer) bool { return string(a.Body) == text }) {
			t.Errorf("%q is not among the %d answers", text, len(answers))
		}
	}
}

func TestDatabaseThatDoesNotExistHasNoDaemon(t *testing.T) {
	t.Parallel()
	answers, err := lifesign.Ask(t.Context(), filepath.Join(t.TempDir(), "none", "none.db"), 0)
	if err != nil || len(answers) != 0 {
		t.Errorf("%+v, %v", answers, err)
	}
}
