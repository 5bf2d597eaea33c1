package httpserver_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"parley/httpserver"
)

// openToken opens the token file of a database, and returns what is logged.
func openToken(t *testing.T, database string) (*httpserver.TokenFile, string, error) {
	t.Helper()
	var log bytes.Buffer
	f, err := httpserver.OpenTokenFile(database, slog.New(slog.NewTextHandler(&log, nil)), nil)
	return f, log.String(), err
}

func TestTokenFileIsMadeOnceForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database := filepath.Join(dir, "conversations.db")
	if _, err := httpserver.ReadTokenFile(database); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first start: %v", err)
	}
	first, log, err := openToken(t, database)
	if err != nil {
		t.Fatal(err)
	}
	if log != "" {
		t.Errorf("the first start logs %s", log)
	}
	info, err := os.Stat(filepath.Join(dir, "http-token"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if len(first.Token()) < 26 { // 130 bits of base32
		t.Errorf("the token has %d characters", len(first.Token()))
	}
	again, _, err := openToken(t, database)
	if err != nil || again.Token() != first.Token() {
		t.Errorf("the second start has another token (%v)", err)
	}
	if read, err := httpserver.ReadTokenFile(database); err != nil || read != first.Token() {
		t.Errorf("the file holds another token (%v)", err)
	}
	expectFiles(t, dir, "http-token")
}

func TestProcessesThatStartAtOnceShareOneToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens := make([]string, 50)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			f, err := httpserver.OpenTokenFile(filepath.Join(dir, "conversations.db"), slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Error(err)
				return
			}
			tokens[i] = f.Token()
		})
	}
	all.Wait()
	for _, token := range tokens {
		if token == "" || token != tokens[0] {
			t.Fatalf("there are several tokens: %q", tokens)
		}
	}
	expectFiles(t, dir, "http-token")
}

func TestTokenFileThatCanNotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(path string) error
		want []string
	}{
		"empty":    {holds(""), []string{"http-token", "no token in it", "gateway token rotate"}},
		"a blank":  {holds(" \n"), []string{"no token in it"}},
		"two":      {holds("a-token-of-somebody\nand-another-one\n"), []string{"what is no token", "one line"}},
		"garbled":  {holds("\x00\x01\x02\x03 not a token"), []string{"what is no token"}},
		"short":    {holds("short\n"), []string{"5 characters", "at least 16"}},
		"huge":     {holds(strings.Repeat("x", 10_000)), []string{"more than 4096 bytes"}},
		"a folder": {func(path string) error { return os.Mkdir(path, 0o700) }, []string{"a folder"}},
		"a pipe":   {func(path string) error { return syscall.Mkfifo(path, 0o600) }, []string{"pipe"}},
		"a link":   {func(path string) error { return os.Symlink("/etc/machine-id", path) }, []string{"a link", "token_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.make(filepath.Join(dir, "http-token")); err != nil {
				t.Fatal(err)
			}
			_, _, err := openToken(t, filepath.Join(dir, "conversations.db"))
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, word := range append(c.want, filepath.Join(dir, "http-token")) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v: lacks %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "somebody") {
				t.Errorf("a token is told: %v", err)
			}
		})
	}
}

func holds(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

func TestLooseModeOfTheTokenFileIsTightened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "http-token")
	if err := os.WriteFile(path, []byte("a-token-of-the-owner\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, log, err := openToken(t, filepath.Join(dir, "conversations.db"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if f.Token() != "a-token-of-the-owner" || !strings.Contains(log, path) || !strings.Contains(log, "gateway token rotate") || strings.Contains(log, f.Token()) {
		t.Errorf("it logs %q", log)
	}
	if _, log, err := openToken(t, filepath.Join(dir, "conversations.db")); err != nil || log != "" {
		t.Errorf("the next start logs %q, %v", log, err)
	}
}

// A token file of another user than the database's owner is refused.
func TestTokenFileOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root makes files of another user")
	}
	dir := t.TempDir()
	database, path := filepath.Join(dir, "conversations.db"), filepath.Join(dir, "http-token")
	for _, file := range []string{database, path} {
		if err := os.WriteFile(file, []byte("a-token-of-somebody-else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openToken(t, database); err == nil || !strings.Contains(err.Error(), "65534") {
		t.Errorf("got %v", err)
	}
}

// When root rotates the token, the gateway's user can still read the file.
func TestRotationByRootLeavesTheFileToTheDatabasesOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root makes files of another user")
	}
	dir := t.TempDir()
	database, path := filepath.Join(dir, "conversations.db"), filepath.Join(dir, "http-token")
	if err := os.WriteFile(database, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(database, 65534, 65533); err != nil {
		t.Fatal(err)
	}
	for _, act := range []func() error{
		func() error { _, _, err := openToken(t, database); return err },
		func() error { return httpserver.RotateTokenFile(database) },
	} {
		if err := act(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 65534 || stat.Gid != 65533 || info.Mode() != 0o600 {
			t.Errorf("it belongs to %d:%d with the mode %v", stat.Uid, stat.Gid, info.Mode())
		}
	}
}

func TestTokenStaysInForceWhileItsFileIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database, path := filepath.Join(dir, "conversations.db"), filepath.Join(dir, "http-token")
	var log bytes.Buffer
	var noted []string
	f, err := httpserver.OpenTokenFile(database, slog.New(slog.NewTextHandler(&log, nil)), func(token string) { noted = append(noted, token) })
	if err != nil {
		t.Fatal(err)
	}
	first := f.Token()
	for _, spoil := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return holds("")(path) },
	} {
		log.Reset()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if f.Token() != first {
				t.Fatal("the token is another one")
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d lines: %s", n, &log)
		}
	}
	if err := httpserver.RotateTokenFile(database); err != nil {
		t.Fatal(err)
	}
	second := f.Token()
	if second == first || len(noted) != 2 || noted[0] != first || noted[1] != second {
		t.Errorf("after the rotation the token is another one: %t, and %d were noted", second != first, len(noted))
	}
	if strings.Contains(log.String(), first) || strings.Contains(log.String(), second) {
		t.Error("a token stands in the log")
	}
	expectFiles(t, dir, "http-token")
}

func expectFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	if strings.Join(found, " ") != strings.Join(names, " ") {
		t.Errorf("the folder holds %q, want %q", found, names)
	}
}
