package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All paths of a configuration are relative to its file, wherever the gateway is started.
func TestPathsAreRelativeToTheFile(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	file := filepath.Join(folder, "my.toml")
	for doc, want := range map[string]string{
		"":                            filepath.Join(folder, "conversations.db"),
		`database = "data/own.db"`:    filepath.Join(folder, "data/own.db"),
		`database = "../own.db"`:      filepath.Join(filepath.Dir(folder), "own.db"),
		`database = "/srv/parley.db"`: "/srv/parley.db",
	} {
		write(t, file, doc)
		t.Chdir(elsewhere)
		if c, err := Load(file, noEnv); err != nil || c.Database != want {
			t.Errorf("%s: %q, %v; want %q", doc, c.Database, err, want)
		}
	}
}

// Earlier versions had their database in the folder in which they were started. Such a database is
// reported, so that a gateway does not begin with an empty one.
func TestDatabaseInTheWorkingFolderIsReported(t *testing.T) {
	folder, working := t.TempDir(), t.TempDir()
	file := filepath.Join(folder, "my.toml")
	write(t, file, "\ndatabase = \"old.db\"")
	write(t, filepath.Join(working, "old.db"), "")
	t.Chdir(working)
	_, err := Load(file, noEnv)
	if err == nil || !strings.Contains(err.Error(), "my.toml:2: database: ") || !strings.Contains(err.Error(), `database = "`+filepath.Join(working, "old.db")+`"`) {
		t.Errorf("error %v, want the line and the path to write there", err)
	}
	write(t, filepath.Join(folder, "old.db"), "")
	if c, err := Load(file, noEnv); err != nil || c.Database != filepath.Join(folder, "old.db") {
		t.Errorf("%q, %v; want the database beside the file", c.Database, err)
	}
}

// A container's environment says where to listen, unless the file does.
func TestListenFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), DefaultPath)
	env := map[string]string{"HTTP_LISTEN": "0.0.0.0:8787"}
	for doc, want := range map[string]string{"": "0.0.0.0:8787", `http.listen = "127.0.0.1:1"`: "127.0.0.1:1", `http.listen = ""`: ""} {
		write(t, file, doc)
		if c, err := Load(file, func(name string) string { return env[name] }); err != nil || c.HTTP.Address() != want {
			t.Errorf("%s: %q, %v; want %q", doc, c.HTTP.Address(), err, want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	env["HTTP_LISTEN"] = "8787"
	if _, err := Load(file, func(name string) string { return env[name] }); err == nil {
		t.Error("a port alone is taken for an address")
	}
}

// An error that a key causes later names the key's line.
func TestOriginNamesTheLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), DefaultPath)
	write(t, file, "\n[http]\nlisten = \"127.0.0.1:1\"\n")
	_, origins, err := LoadWithOrigins(file, noEnv)
	if got := origins["http.listen"].Place(); err != nil || got != file+":3" {
		t.Errorf("%q, %v", got, err)
	}
}
