package gatewaytest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Main is what TestMain calls: it runs the tests, and then deletes the binary.
func Main(m *testing.M) {
	m.Run() // package testing exits with its result
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // in the folder for temporary files
	}
}

var built struct {
	sync.Once
	path string
	dir  string // "" if no test built it
	err  error
}

// Binary returns the path of the gateway: what PARLEY_TEST_GATEWAY names, which `make test` has
// just built, or else what the first test to call Binary builds, with the race detector if the
// tests have it. The package's TestMain calls Main.
func Binary(t testing.TB) string {
	t.Helper()
	built.Do(func() { built.path, built.err = binary() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func binary() (path string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := lookAtSources(root); err != nil {
		return "", err
	}
	if path := os.Getenv("PARLEY_TEST_GATEWAY"); path != "" {
		return path, nil
	}
	if built.dir, err = os.MkdirTemp("", "parley-gatewaytest"); err != nil {
		return "", err
	}
	path = filepath.Join(built.dir, "gateway")
	return path, Build(path)
}

// Build builds the gateway to path, with further flags of go build, and with the race
// detector if the tests have it.
func Build(path string, flags ...string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	args := []string{"build", "-tags=sqlite_fts5", "-ldflags=-s -w", "-o", path} // debuggers alone read what -s and -w leave out, and linking takes longer with it
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(append(args, flags...), "./cmd/gateway")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the gateway: %w\n%s", err, out)
	}
	return nil
}

// moduleRoot finds the folder of go.mod from the test's own upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("there is no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// lookAtSources lists the files of every folder of the module. The go command reuses the cached
// result of a test unless a file has changed that the test itself has looked at; the files of a
// build that it runs do not count.
func lookAtSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin") {
			return filepath.SkipDir
		}
		return err
	})
}
