// Exampledb writes a small database with a believable history, through the
// same store that the gateway uses.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"parley/conversation"
	"parley/llm"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: exampledb FILE")
		os.Exit(2)
	}
	if err := write(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "exampledb:", err)
		os.Exit(1)
	}
}

// write creates the database at path, replacing an old one.
func write(ctx context.Context, path string) error {
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	a := &author{counter: llm.NewCounter("")}
	store, err := conversation.Open(ctx, conversation.Config{Path: path, Now: func() time.Time { return a.now }})
	if err != nil {
		return err
	}
	a.store = store
	for _, s := range scenes() {
		if err := a.stage(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("%s, %q: %w", s.key, s.title, err), store.Close())
		}
	}
	if err := store.Close(); err != nil {
		return err
	}
	return os.Remove(path + ".lock")
}
