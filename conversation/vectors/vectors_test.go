package vectors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/storetest"
)

var model = Model{Name: "test"}

// process is one of several processes that make vectors.
type process struct {
	t          *testing.T
	vectors    *Vectors
	generation Generation
	owner      Owner
}

func newProcess(t *testing.T, s *conversation.Store, model Model, name string) process {
	t.Helper()
	v := New(s)
	g, _, err := v.Use(t.Context(), model)
	if err != nil {
		t.Fatal(err)
	}
	return process{t, v, g, Owner{"this", name}}
}

func (p process) claim() Claim {
	p.t.Helper()
	for {
		claim, more, err := p.vectors.Claim(p.t.Context(), p.generation, p.owner)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(claim.Messages) > 0 || !more {
			return claim
		}
	}
}

// store stores the same vector for each claimed message.
func (p process) store(claim Claim, vector ...float32) (stored bool) {
	p.t.Helper()
	vectors := make([][][]float32, len(claim.Messages))
	for i := range vectors {
		vectors[i] = [][]float32{vector}
	}
	stored, err := p.vectors.Store(p.t.Context(), claim, vectors)
	if err != nil {
		p.t.Fatal(err)
	}
	return stored
}

func (p process) all() (made int) {
	p.t.Helper()
	for {
		claim := p.claim()
		if len(claim.Messages) == 0 {
			return made
		}
		if p.store(claim, 1, 2, 3) {
			made += len(claim.Messages)
		}
	}
}

func addMessages(t *testing.T, s *conversation.Store, key conversation.Key, n int) {
	t.Helper()
	var list []conversation.Message
	for i := range n {
		list = append(list, storetest.User(fmt.Sprintf("message %d", i)))
	}
	storetest.Tell(t, s, key, list...)
}

// counts returns how many vectors there are, and how many signs.
func counts(t *testing.T, s *conversation.Store) [2]int64 {
	t.Helper()
	return [2]int64{storetest.Count(t, s, `SELECT count(*) FROM vectors`), storetest.Count(t, s, `SELECT count(*) FROM vector_signs`)}
}

func TestOnlyTextsOfPeopleAndAnswersGetVectors(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("question"),
		conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "1", Name: "ls", Arguments: "{}"}}},
		conversation.Message{Role: conversation.RoleTool, ToolCallID: "1", ToolName: "ls", Content: "files"}, storetest.Assistant("answer"),
		storetest.Assistant("undone"), storetest.Assistant("note"))
	storetest.Exec(t, s, `UPDATE messages SET state = 'undone' WHERE content = 'undone'`)
	storetest.Exec(t, s, `UPDATE messages SET internal = 1 WHERE content = 'note'`)
	var texts []string
	for _, m := range newProcess(t, s, model, "a").claim().Messages {
		texts = append(texts, m.Text)
	}
	if want := []string{"question", "answer"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

// Two processes do not make vectors of the same messages. When one dies, the other one takes over after a while, and
// late results of the first one are dropped.
func TestProcessesMakeEachVectorOnce(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	addMessages(t, s, storetest.Chat, 10)
	a, b := newProcess(t, s, model, "a"), newProcess(t, s, model, "b")
	claimed := a.claim()
	if len(claimed.Messages) != 10 || len(b.claim().Messages) != 0 {
		t.Fatalf("%d messages are claimed, and then others", len(claimed.Messages))
	}
	if got := counts(t, s); got != [2]int64{} {
		t.Fatalf("%d vectors before they are made", got)
	}
	clock.Pass(claimLasts + time.Second)
	taken := b.claim()
	if len(taken.Messages) != 10 {
		t.Fatalf("%d messages are taken over", len(taken.Messages))
	}
	if a.store(claimed, 9, 9, 9) {
		t.Error("stored what another process has taken over")
	}
	if !b.store(taken, 1, 2, 3) || b.store(taken, 1, 2, 3) {
		t.Error("the claim is not stored once")
	}
	if got := counts(t, s); got != [2]int64{10, 10} {
		t.Errorf("%d vectors of 10 messages", got)
	}
	addMessages(t, s, storetest.Chat, 3)
	if claim := a.claim(); len(claim.Messages) != 3 || claim.Length != 3 {
		t.Errorf("%d messages are claimed for vectors of %d", len(claim.Messages), claim.Length)
	}
	if err := a.vectors.Release(t.Context(), a.owner); err != nil {
		t.Fatal(err)
	}
	if got := b.all(); got != 3 {
		t.Errorf("%d messages after the release", got)
	}
}

// Whichever step a process dies in between a claim and its vectors, each vector is stored once in the end, and other processes do not wait for it.
func TestKillAtAnyStepLosesNoVector(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "died.db")
	s := storetest.Open(t, path)
	addMessages(t, s, storetest.Chat, 3*claimRows)
	for i := range 12 {
		p := newProcess(t, s, model, "any")
		p.owner.Process = fmt.Sprint("process ", i)
		claim := p.claim()
		if i%2 == 1 {
			p.store(claim, 1, 2, 3)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = storetest.Open(t, path)
	}
	newProcess(t, s, model, "last").all()
	if got := counts(t, s); got != [2]int64{3 * claimRows, 3 * claimRows} {
		t.Errorf("%d vectors", got)
	}
	p, err := New(s).Progress(t.Context())
	if err != nil || p.Done != p.Total || p.Total != 3*claimRows {
		t.Errorf("%+v, %v", p, err)
	}
}

// Vectors are deleted with their messages. Vectors that were being made are not stored then, and later messages with
// the same ids get their own.
func TestVectorsAreDeletedWithTheirMessages(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addMessages(t, s, "cli:kept", 5)
	addMessages(t, s, storetest.Chat, 20)
	p := newProcess(t, s, model, "a")
	p.all()
	remove := func(key conversation.Key) {
		c, err := s.Active(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Delete(t.Context(), key, c.ID); err != nil {
			t.Fatal(err)
		}
		storetest.Chores(t, s)
	}
	remove(storetest.Chat)
	if got := counts(t, s); got != [2]int64{5, 5} {
		t.Errorf("%d vectors are left, want 5", got)
	}
	addMessages(t, s, storetest.Chat, 4)
	claim := p.claim()
	remove(storetest.Chat)
	storetest.Tell(t, s, storetest.Chat, storetest.User("told meanwhile"), storetest.User("message 1"))
	p.store(claim, 9, 9, 9)
	if got := counts(t, s); got != [2]int64{5, 5} {
		t.Errorf("%d vectors after messages were deleted under way, want 5", got)
	}
	p.all()
	if got := counts(t, s); got != [2]int64{7, 7} {
		t.Errorf("%d vectors in the end, want 7", got)
	}
}

// With another model, all vectors are made again. Those of the first model are not found any more, and its process makes no more.
func TestAnotherModelMakesAllVectorsAnew(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	addMessages(t, s, storetest.Chat, 300)
	first := newProcess(t, s, model, "a")
	first.all()
	if _, renewed, err := first.vectors.Use(t.Context(), model); renewed || err != nil {
		t.Errorf("the same model: %t, %v", renewed, err)
	}
	g, renewed, err := first.vectors.Use(t.Context(), Model{Name: "other", Dimensions: 2})
	if !renewed || err != nil {
		t.Fatalf("another model: %t, %v", renewed, err)
	}
	if _, _, err := first.vectors.Claim(t.Context(), first.generation, first.owner); !errors.Is(err, ErrOtherModel) {
		t.Errorf("the first model goes on: %v", err)
	}
	look := func(query ...float32) int {
		ids, err := New(s).Nearest(t.Context(), s.DB(), []Conversation{{1, 300}}, query, 500)
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	second := process{t, first.vectors, g, Owner{"this", "b"}}
	second.store(second.claim(), 3, 1)
	if old, renewed := look(1, 2, 3), look(1, 0); old != 0 || renewed != claimRows {
		t.Errorf("under way, %d old and %d new vectors are found", old, renewed)
	}
	storetest.Exec(t, s, `DELETE FROM messages WHERE seq > 298`) // whose vectors the second model does not replace
	storetest.Exec(t, s, `INSERT INTO vectors (id, generation, vector) VALUES (77, 1, ?)`, []byte{0})
	for len(second.claim().Messages) > 0 {
		second.store(second.claim(), 3, 1)
	}
	for done := false; !done; {
		if done, err = second.vectors.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := counts(t, s); got != [2]int64{298, 298} || look(1, 0) != 298 {
		t.Errorf("%d vectors in the end", got)
	}
}

// The nearest messages are found among few, where all are compared exactly, and among many, by their signs first.
func TestNearestMessagesComeFirst(t *testing.T) {
	t.Parallel()
	for _, messages := range []int64{500, 20_000} {
		s := storetest.New(t)
		g := fill(t, s, messages, 256)
		random := rand.New(rand.NewPCG(5, 6))
		query := vectorOf(random, 256)
		want := []int64{}
		for i, noise := range []float32{0.2, 0.5, 0.8} {
			near := slices.Clone(query)
			for j, value := range vectorOf(random, 256) {
				near[j] += noise * value
			}
			id := int64(1)<<24 | (messages/4)*int64(i+1)
			insert(t, s, g, id, [][]float32{vectorOf(random, 256), near})
			want = append(want, id)
		}
		got, err := New(s).Nearest(t.Context(), s.DB(), []Conversation{{1, messages}}, query, 3)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d messages: %d, want %d, %v", messages, got, want, err)
		}
		for _, other := range [][]Conversation{nil, {{2, messages}}, {{1, 0}}} {
			if got, err := New(s).Nearest(t.Context(), s.DB(), other, query, 3); err != nil || len(got) != 0 {
				t.Errorf("%v has %d, %v", other, got, err)
			}
		}
	}
}

// The cached signs of a long session follow the stored vectors: new ones, deleted ones, and those of another model.
func TestSignsInMemoryFollowTheStore(t *testing.T) {
	t.Parallel()
	const messages, length = 12_000, 256
	s := storetest.New(t)
	g := fill(t, s, messages, length)
	random := rand.New(rand.NewPCG(7, 8))
	query := vectorOf(random, length)
	nearest := func(said int64) int64 {
		t.Helper()
		ids, err := New(s).Nearest(t.Context(), s.DB(), []Conversation{{1, said}}, query, 1)
		if err != nil || len(ids) != 1 {
			t.Fatalf("%d, %v", ids, err)
		}
		return ids[0]
	}
	before := nearest(messages)
	newest := int64(1)<<24 | (messages + 1)
	if got := nearest(messages + 1); got != before {
		t.Errorf("before it has a vector: %d, want %d", got, before)
	}
	insert(t, s, g, newest, [][]float32{vectorOf(random, length), query})
	if got := nearest(messages + 1); got != newest {
		t.Errorf("with its vector: %d, want %d", got, newest)
	}
	storetest.Exec(t, s, `DELETE FROM vectors WHERE id = ?`, newest)
	storetest.Exec(t, s, `DELETE FROM vector_signs WHERE id = ?`, newest)
	if got := nearest(messages + 1); got != before {
		t.Errorf("without it: %d, want %d", got, before)
	}
	g, _, err := New(s).Use(t.Context(), Model{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, s, `UPDATE embeddings SET length = ?`, length)
	insert(t, s, g, 1<<24|5, [][]float32{vectorOf(random, length)})
	if got := nearest(messages + 1); got != 1<<24|5 {
		t.Errorf("by another model: %d", got)
	}
	cache := New(s).signs
	cache.put([]Conversation{{ID: 9}}, []signs{{bits: make([]uint64, maxSigns/8+1)}})
	if len(cache.known) != 0 || cache.bytes != 0 {
		t.Errorf("%d conversations with %d bytes are kept", len(cache.known), cache.bytes)
	}
}

// Damaged and invalid vectors are ignored.
func TestInvalidVectorsAreIgnored(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	g := fill(t, s, 10, 8)
	for id, blob := range []string{"", "\x00", "\x01\x02\x03\x04\x05\x06\x07\x08\xff", "\x01\x02\x03\x04\x05\x06\x07\x08\x01\xff"} {
		storetest.Exec(t, s, `UPDATE vectors SET vector = ? WHERE id = ?`, []byte(blob), 1<<24|(id+1))
	}
	if vector, signs := encode(1, [][]float32{{0, 0}, nil}); vector != nil || signs != nil {
		t.Error("a vector without direction is stored")
	}
	insert(t, s, g, 1<<24|9, [][]float32{{1e30, -1e30, 0, 0, 0, 0, 0, 1e-30}})
	for _, query := range [][]float32{{1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}, {1}, nil} {
		if _, err := New(s).Nearest(t.Context(), s.DB(), []Conversation{{1, 10}}, query, 3); err != nil {
			t.Error(err)
		}
	}
}

func vectorOf(random *rand.Rand, length int) []float32 {
	vector := make([]float32, length)
	for i := range vector {
		vector[i] = float32(random.NormFloat64())
	}
	return vector
}

// fill stores random vectors of the messages of one conversation.
func fill(t testing.TB, s *conversation.Store, messages int64, length int) Generation {
	t.Helper()
	g, _, err := New(s).Use(t.Context(), model)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, s, `UPDATE embeddings SET length = ?`, length)
	random := rand.New(rand.NewPCG(1, 2))
	const batch = 500 // on a busy machine, more of them may take longer than the 30 s of a transaction on PostgreSQL
	for first := int64(1); first <= messages; first += batch {
		err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
			for seq := first; seq < min(first+batch, messages+1); seq++ {
				m := Message{conversation: 1, seq: seq}
				if err := m.add(ctx, tx, g, [][]float32{vectorOf(random, length)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func insert(t testing.TB, s *conversation.Store, g Generation, id int64, chunks [][]float32) {
	t.Helper()
	err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
		return Message{conversation: id >> 24, seq: id & 0xFFFFFF}.add(ctx, tx, g, chunks)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkNearest looks for the nearest of 100,000 messages of one session.
func BenchmarkNearest(b *testing.B) {
	const messages = 100_000
	for _, length := range []int{100, 768, 1536} {
		b.Run(fmt.Sprintf("dimensions=%d", length), func(b *testing.B) {
			s := storetest.New(b)
			fill(b, s, messages, length)
			random := rand.New(rand.NewPCG(3, 4))
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := New(s).Nearest(b.Context(), s.DB(), []Conversation{{1, messages}}, vectorOf(random, length), 200); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}
