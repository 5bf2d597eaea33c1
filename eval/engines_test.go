package main

import (
	"path/filepath"
	"slices"
	"testing"

	"parley/conversation"
	"parley/conversation/search"
	"parley/internal/postgrestest"
)

// Each question finds the same messages in the same order with SQLite and with PostgreSQL, in one session and in all of
// them.
func TestSearchFindsTheSameWithPostgreSQL(t *testing.T) {
	t.Parallel()
	const messages, limit, eachQuestion = 600, 25, 12
	url := postgrestest.Database(t)
	s, err := generate(messages)
	if err != nil {
		t.Fatal(err)
	}
	file, server := s.stored(t, filepath.Join(t.TempDir(), "eval.db")), s.stored(t, url)
	different, asked := 0, 0
	for _, talk := range s.talks {
		for n := 0; n < len(talk.questions); n += eachQuestion {
			q := talk.questions[n]
			for _, query := range queriesOf(talk, q.text, limit) {
				want, got := hits(t, file, query), hits(t, server, query)
				asked++
				if slices.Equal(got, want) {
					continue
				}
				if different++; different <= 5 {
					t.Errorf("%s: %+v\nSQLite finds     %v\nPostgreSQL finds %v", talk.name, query, want, got)
				}
			}
		}
	}
	if different > 0 {
		t.Errorf("%d of %d searches find something else", different, asked)
	}
}

// stored returns a store at path or URL with the conversations of a set.
func (s set) stored(t *testing.T, path string) *conversation.Store {
	t.Helper()
	store, err := conversation.Open(t.Context(), conversation.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for _, talk := range s.talks {
		if _, err := storeTalk(t.Context(), store, talk); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// queriesOf returns searches for a question: as it is, as a phrase, in one conversation, on a later page, with the beginning
// of its last word only, and in all sessions.
func queriesOf(t talk, question string, limit int) []search.Query {
	here := search.Query{Key: keyOf(t), Words: question, Limit: limit}
	phrase, withoutTools, later, beginning, everywhere := here, here, here, here, here
	words := word.FindAllString(question, -1)
	middle := len(words) / 2
	phrase.Words = `"` + words[middle-1] + " " + words[middle] + `" ` + words[0]
	withoutTools.WithoutTools, withoutTools.Words = true, words[len(words)-1]
	later.Skip = limit
	last := []rune(words[len(words)-1])
	beginning.Words = string(last[:max(1, len(last)*2/3)])
	everywhere.Key = ""
	return []search.Query{here, phrase, withoutTools, later, beginning, everywhere}
}

// hit is where a message was found.
type hit struct {
	key     conversation.Key
	seq     int64
	snippet string
}

func hits(t *testing.T, store *conversation.Store, query search.Query) (list []hit) {
	t.Helper()
	found, err := search.New(store).Find(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range found {
		list = append(list, hit{h.Key, h.Seq, h.Snippet.Mark("<", ">")})
	}
	return list
}
