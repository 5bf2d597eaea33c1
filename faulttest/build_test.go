package faulttest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the gateway under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "parley-faulttest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "gateway")
	args := []string{"-tags=sqlite_fts5"}
	if raceEnabled {
		args = append(args, "-race")
	}
	if err := build(binary, nil, args...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The tests wait most of the time; -parallel sets another number.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the gateway to a path, with env added to the environment.
func build(path string, env []string, args ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, args...), "./cmd/gateway")...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	return nil
}
