package search

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
)

// archiveOf is the number of messages in the archive.
const archiveOf = 1_000_000

// BenchmarkArchive searches an archive of a million messages in 1,000 sessions, and begins runs there. It takes
// some minutes to make the archive. The words have frequencies like those of a language, and queries are drawn
// from the texts, so that they have common words as often as the texts. If the environment variable ARCHIVE
// names a file, the archive is kept there for the next time. It may also be the URL of a PostgreSQL database,
// empty at first.
func BenchmarkArchive(b *testing.B) {
	archive := newArchive(b)
	for _, c := range []struct {
		name  string
		query func() Query
	}{
		{"session/one word", func() Query { return archive.query(archive.session(), 1) }},
		{"session/two words", func() Query { return archive.query(archive.session(), 2) }},
		{"session/question of seven words", func() Query { return archive.query(archive.session(), 7) }},
		{"session/quoted phrase", func() Query { return archive.quoted(archive.session()) }},
		{"session/Chinese word", func() Query { return archive.queryChinese(1) }},
		{"session/Chinese sentence", func() Query { return archive.queryChinese(7) }},
		{"session of 100,000/two words", func() Query { return archive.query("telegram:chat:1", 2) }},
		{"session of 100,000/question of seven words", func() Query { return archive.query("telegram:chat:1", 7) }},
		{"session of 100,000/quoted phrase", func() Query { return archive.quoted("telegram:chat:1") }},
		{"everything/one word", func() Query { return archive.query("", 1) }},
		{"everything/two words", func() Query { return archive.query("", 2) }},
		{"everything/question of seven words", func() Query { return archive.query("", 7) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			cpu := userTime(b)
			for b.Loop() {
				query := c.query()
				began := time.Now()
				if _, err := New(archive.store).Find(b.Context(), query); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(float64((userTime(b)-cpu).Microseconds())/1000/float64(len(took)), "user-ms/op")
			reportPercentiles(b, took)
			if archive.ratio > 0 {
				b.ReportMetric(archive.ratio, "file/text")
			}
		})
	}
	b.Run("begin", func(b *testing.B) { archive.begin(b) })
}

func reportPercentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, percent := range []int{95, 99} {
		b.ReportMetric(float64(took[len(took)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
	}
}

// userTime returns the processor time of the process. Unlike wall-clock time, it does not depend on the
// load of the machine.
func userTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano())
}

// begin opens sessions of all sizes with small and large windows, of which the
// default one holds some 320 of these messages.
func (a *archive) begin(b *testing.B) {
	for _, budget := range []int{4000, 32_000} {
		b.Run(fmt.Sprintf("budget=%d", budget), func(b *testing.B) {
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				key := a.session()
				in := conversation.Inbound{Key: key, SourceID: fmt.Sprintf("%d/%d/%d", budget, b.N, n), Text: "And now?", At: time.Now()}
				if _, err := a.store.Accept(b.Context(), nil, in); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if _, err := a.store.Begin(b.Context(), key, budget); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				storetest.Exec(b, a.store, `UPDATE inbox SET run_id = id WHERE run_id IS NULL`)
			}
			reportPercentiles(b, took)
		})
	}
}

// archive is a large database.
type archive struct {
	store          *conversation.Store
	words, chinese *vocabulary
	ratio          float64 // of the file's size to the texts'; 0 = the archive was made before

	turns int         // of a conversation, on average
	talk  map[int]int // the conversation that a session is in
}

func newArchive(b *testing.B) *archive {
	b.Helper()
	path := cmp.Or(os.Getenv("ARCHIVE"), filepath.Join(b.TempDir(), "archive.db"))
	store, err := conversation.Open(b.Context(), conversation.Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	inFile := !db.IsURL(path)
	if inFile { // The archive is made to be read: nothing of it must survive a power cut.
		storetest.Exec(b, store, "PRAGMA synchronous = OFF")
	}
	a := &archive{store: store, words: newVocabulary(), chinese: newChinese(), turns: 50, talk: map[int]int{}}
	var made int
	if err := store.DB().QueryRowContext(b.Context(), `SELECT count(*) FROM sessions`).Scan(&made); err != nil {
		b.Fatal(err)
	}
	var size int64
	for from := 0; made == 0 && from < archiveOf; from += 5_000 {
		err := store.DB().Write(b.Context(), func(ctx context.Context, tx db.Tx) error {
			n, err := a.fill(ctx, tx, from, from+5_000)
			size += n
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	storetest.Chores(b, store)
	if !inFile {
		return a
	}
	storetest.Exec(b, store, "PRAGMA wal_checkpoint(TRUNCATE)")
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	if size > 0 {
		a.ratio = float64(info.Size()) / float64(size)
	}
	return a
}

// session returns a random session, weighted by its number of messages.
func (a *archive) session() conversation.Key { return sessionKey(a.words.session()) }

func sessionKey(n int) conversation.Key { return conversation.Key(fmt.Sprintf("telegram:chat:%d", n)) }

func (a *archive) query(key conversation.Key, words int) Query {
	return Query{Key: key, Words: a.words.text(words), Limit: 10}
}

func (a *archive) quoted(key conversation.Key) Query {
	query := a.query(key, 2)
	query.Words = `"` + query.Words + `"`
	return query
}

func (a *archive) queryChinese(words int) Query {
	return Query{Key: sessionKey(a.words.random.IntN(100)*10 + 3), Words: a.chinese.text(words), Limit: 10}
}

// fill adds messages, every second of them an answer, with their rows in the inbox, the outbox and the runs.
// It returns the size of their texts in bytes.
func (a *archive) fill(ctx context.Context, tx db.Tx, from, to int) (size int64, err error) {
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, query, args...)
		}
	}
	for i := from; from == 0 && i <= 1000; i++ {
		exec(`INSERT INTO sessions (id, key, channel, created_at) VALUES (?, ?, 'telegram', 0)`, i+1, string(sessionKey(i)))
	}
	for id := from + 1; id <= to; id += 2 {
		session := a.words.session() + 1
		if a.talk[session] == 0 || a.words.random.IntN(a.turns) == 0 {
			exec(`UPDATE conversations SET active = 0 WHERE session_id = ? AND active = 1`, session)
			exec(`INSERT INTO conversations (id, uuid, session_id, title, created_at, updated_at) VALUES (?, ?, ?, 'A talk', 0, 0)`, id, fmt.Sprintf("%036d", id), session)
			a.talk[session] = id
		}
		talk := a.talk[session]
		address, at := fmt.Sprintf(`{"chat":%d,"message":%d}`, session, id), int64(id)*60_000
		words := a.vocabularyOf(session - 1)
		question, answer := words.text(5+words.random.IntN(40)), words.text(20+words.random.IntN(140))
		calls := words.calls()
		size += int64(len(question) + len(answer) + len(calls))
		exec(`UPDATE conversations SET messages = messages + 2, tokens = tokens + 200, updated_at = ? WHERE id = ?`, at, talk)
		for n, m := range []struct{ role, text, calls string }{{"user", question, ""}, {"assistant", answer, calls}} {
			source := sql.NullString{String: fmt.Sprint(id), Valid: n == 0}
			exec(`INSERT INTO messages (id, conversation_id, seq, run_id, role, content, tool_calls, tokens, source_id, created_at)
				SELECT ?, id, messages - 1 + ?, ?, ?, ?, ?, 100, ?, ? FROM conversations WHERE id = ?`,
				id+n, n, id, m.role, m.text, sql.NullString{String: m.calls, Valid: m.calls != ""}, source, at, talk)
		}
		exec(`INSERT INTO inbox (id, session_id, channel, source_id, address, sender, text, sent_at, run_id)
			VALUES (?, ?, 'telegram', ?, ?, '{"id":"12345678","name":"Ann"}', '', ?, ?)`, id, session, fmt.Sprintf("%d/%d", session, id), address, at, id)
		exec(`INSERT INTO outbox (session_id, run_id, address, text, state, sent, created_at) VALUES (?, ?, ?, '', 'sent', '["1234567"]', ?)`,
			session, id, address, at)
		exec(`INSERT INTO runs (id, session_id, conversation_id, kind, status, model, rounds, prompt_tokens, completion_tokens, started_at, ended_at)
			VALUES (?, ?, ?, 'agent', 'done', 'gpt-4o-mini', 1, 2000, 150, ?, ?)`, id, session, talk, at, at)
	}
	return size, err
}

// vocabularyOf returns the vocabulary of a session. Every tenth session is in Chinese.
func (a *archive) vocabularyOf(session int) *vocabulary {
	if session%10 == 3 {
		return a.chinese
	}
	return a.words
}

// vocabulary draws random words, of which a few are common and most are rare.
type vocabulary struct {
	random *rand.Rand
	zipf   *rand.Zipf
	words  []string
	space  string // between words
}

// newChinese returns a vocabulary of words of one to three characters, without spaces between them.
func newChinese() *vocabulary {
	random := rand.New(rand.NewPCG(3, 4))
	v := &vocabulary{random: random, zipf: rand.NewZipf(random, 1.07, 4, 30_000-1)}
	character := func() string { // some are much more common than others
		return string(rune(0x4E00 + int(3000*math.Pow(random.Float64(), 3))))
	}
	for range 30_000 {
		word := character()
		for range random.IntN(3) {
			word += character()
		}
		v.words = append(v.words, word)
	}
	return v
}

func newVocabulary() *vocabulary {
	random := rand.New(rand.NewPCG(1, 2))
	v := &vocabulary{random: random, zipf: rand.NewZipf(random, 1.07, 4, 60_000-1), space: " "}
	for rank := range 60_000 {
		word := ""
		for left := rank; ; left /= 40 {
			word += syllable(random)
			if left < 40 {
				break
			}
		}
		v.words = append(v.words, word)
	}
	return v
}

func syllable(random *rand.Rand) string {
	letter := func(of string) string { return string(of[random.IntN(len(of))]) }
	return letter("bcdfghklmnprstvz") + letter("aeiou") + letter("bdgklmnrst")
}

func (v *vocabulary) text(words int) string {
	list := make([]string, words)
	for i := range list {
		list[i] = v.words[v.zipf.Uint64()]
	}
	return strings.Join(list, v.space)
}

// calls returns the tool calls of an answer as JSON: one for every tenth answer, else "".
func (v *vocabulary) calls() string {
	if v.random.IntN(10) > 0 {
		return ""
	}
	arguments := fmt.Sprintf(`{"path":"src/%s/%s.go","content":"%s"}`, v.text(1), v.text(1), v.text(20))
	calls, err := json.Marshal([]conversation.ToolCall{{ID: "call_1", Name: "write_file", Arguments: arguments}})
	if err != nil {
		panic(err)
	}
	return string(calls)
}

// session returns a random session. Session 1 has a tenth of all messages, the others equal shares.
func (v *vocabulary) session() int {
	if v.random.IntN(10) == 0 {
		return 1
	}
	return v.random.IntN(1000)
}
