package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/web"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/storetest"
	"parley/internal/clock"
	"parley/internal/waittest"
	"parley/llm"
)

// Every process shows the progress of an import and can stop it. The request to stop is stored until the
// importing process has seen it, also across a restart.
func TestImportIsStoppedByAnotherProcess(t *testing.T) {
	t.Parallel()
	store, folder := storetest.New(t), t.TempDir()
	process := func() *imports {
		return newImports(folder, store, llm.NewCounter("test-model"), files.DefaultLimits(), func(conversation.Key) {}, slog.New(slog.DiscardHandler))
	}
	start := func(im *imports) (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { im.run(ctx) })
		return func() { cancel(); running.Wait() }
	}
	status := func(im *imports) web.ImportStatus {
		t.Helper()
		s, err := im.Status()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	await := func(what string, happened func() bool) {
		t.Helper()
		for deadline := time.Now().Add(waittest.Patience); !happened(); {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s", what)
			}
			_ = clock.Sleep(t.Context(), 10*time.Millisecond)
		}
	}
	file := func() *strings.Reader {
		return strings.NewReader(`{"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]}` + "\n")
	}
	if err := store.Close(); err != nil { // so that the imports wait until they can store something
		t.Fatal(err)
	}

	importing, asked := process(), process()
	end := start(importing)
	if err := importing.Take("talks.jsonl", file()); err != nil {
		t.Fatal(err)
	}
	await("the progress in the other process", func() bool {
		s := status(asked)
		return s.UnderWay && strings.Contains(s.Problem, "can't store anything")
	})
	if err := asked.Stop(); err != nil {
		t.Fatal(err)
	}
	await("the end of the import", func() bool { s := status(asked); return !s.UnderWay && s.Stopped && s.Name == "talks.jsonl" })
	end()

	if err := asked.Take("more.jsonl", file()); err != nil {
		t.Fatal(err)
	}
	if err := asked.Take("third.jsonl", file()); !errors.Is(err, web.ErrImporting) {
		t.Errorf("a file beside another one: %v", err)
	}
	if err := asked.Stop(); err != nil {
		t.Fatal(err)
	}
	defer start(process())()
	await("the end after a restart", func() bool { s := status(asked); return !s.UnderWay && s.Stopped && s.Name == "more.jsonl" })
	if err := asked.Stop(); err != nil {
		t.Errorf("with nothing to stop: %v", err)
	}
}
