// Package vectors stores the vectors of messages, which embedding models make, and finds the messages whose vectors
// are nearest to that of a query.
//
// The code that makes the vectors, the owner, takes [Vectors.Lock] and calls [Vectors.Use] with its model once. Then it
// repeats: [Vectors.Claim] returns messages, the model makes their vectors, and [Vectors.Store] stores them. Several
// processes, and crashes of them, do not lead to a second set of vectors for a message: while one owner has a claim, no other
// gets one, and Store stores nothing for a claim that has passed to another owner.
package vectors

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
	"parley/conversation/internal/wordindex"
)

// Vectors stores the vectors of all messages of a store. It is safe for concurrent use.
type Vectors struct {
	db     *db.DB
	now    func() time.Time
	signs  *signCache // shared by all users of the store
	listed bool       // the table unembedded_messages lists the messages without a vector; so on PostgreSQL, where ids are not in the order of commits
}

// New returns the vectors of a store.
func New(store *conversation.Store) *Vectors {
	cache := store.DB().Shared(cacheKey{}, func() any { return &signCache{known: map[int64]signs{}} })
	return &Vectors{store.DB(), store.Now, cache.(*signCache), db.IsURL(store.Path())}
}

// Model identifies the model that makes vectors. Vectors of different models can't be compared.
type Model struct {
	Name       string
	Dimensions int // the number of dimensions to request; 0 = the model's own number
}

// Lock makes this process the only one that makes vectors, until release is called or the process dies. ok is false if
// another process has the lock.
func (v *Vectors) Lock() (release func(), ok bool, err error) {
	release, err = v.db.Lock("embeddings")
	if held := new(db.HeldError); errors.As(err, &held) {
		return nil, false, nil
	}
	return release, err == nil, err
}

// Owner identifies one maker of vectors in one process.
type Owner struct {
	Process string // unique among processes
	Name    string // unique in its process
}

func (o Owner) String() string { return o.Process + "/" + o.Name }

// ErrOtherModel says that another process has called Use with another model meanwhile.
var ErrOtherModel = errors.New("another process uses another embedding model with this database")

// Generation numbers the models that a database has had, from 1. Each vector has the generation of its model.
type Generation int64

// Use sets the model that makes the vectors from now on. renewed is true if it replaces another model: the vectors of
// that model are no longer found, and all messages get new ones.
func (v *Vectors) Use(ctx context.Context, model Model) (g Generation, renewed bool, err error) {
	err = v.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		g, renewed = 0, false
		known, err := read(ctx, tx)
		if g = known.generation; err != nil || known.Model == model && g > 0 {
			return err
		}
		g++
		renewed = known.generation > 0
		if v.listed {
			if err := listAll(ctx, tx); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO embeddings (id, generation, model, dimensions, length, done, owner, claimed_until) VALUES (1, 1, ?1, ?2, 0, 0, '', 0)
			ON CONFLICT (id) DO UPDATE SET generation = embeddings.generation + 1, model = ?1, dimensions = ?2, length = 0, done = 0, owner = '', claimed_until = 0`,
			model.Name, model.Dimensions)
		return err
	})
	return g, renewed, err
}

// listAll lists all messages as without a vector. The lock delays new messages until the model is set; then a trigger lists them.
func listAll(ctx context.Context, tx db.Tx) error {
	if _, err := tx.ExecContext(ctx, `LOCK TABLE messages IN SHARE ROW EXCLUSIVE MODE`); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO unembedded_messages (message_id) SELECT id FROM messages ON CONFLICT DO NOTHING`)
	return err
}

// state is the row of the table embeddings. Its generation is 0 if there is none.
type state struct {
	Model
	generation Generation
	length     int64  // the number of dimensions of its vectors; 0 = there are none
	done       int64  // the id up to which no message lacks a vector; on PostgreSQL, a counter that grows whenever vectors of a claim are stored
	owner      string // the owner of the claim; "" = nobody has one
	until      int64  // when the claim ends, in milliseconds
}

func read(ctx context.Context, q db.Querier) (s state, err error) {
	err = q.QueryRowContext(ctx, `SELECT generation, model, dimensions, length, done, owner, claimed_until FROM embeddings`).
		Scan(&s.generation, &s.Name, &s.Dimensions, &s.length, &s.done, &s.owner, &s.until)
	if errors.Is(err, sql.ErrNoRows) {
		return state{}, nil
	}
	return s, err
}

// Progress is how far the vectors have come.
type Progress struct {
	Model       Model
	Done, Total int64 // approximate numbers of messages: those that need no vector any more, and all
}

// Progress returns how far the vectors of the present model have come. It returns the zero value if Use was never called.
func (v *Vectors) Progress(ctx context.Context) (p Progress, err error) {
	s, err := read(ctx, v.db)
	if err != nil || s.generation == 0 {
		return p, db.Explain(err)
	}
	p.Model = s.Model
	newest, left, err := v.left(ctx, s)
	p.Done, p.Total = newest-left, newest
	return p, db.Explain(err)
}

// left returns the id of the newest message, and the number of messages that may still need a vector, at most.
func (v *Vectors) left(ctx context.Context, s state) (newest, left int64, err error) {
	err = v.db.QueryRowContext(ctx, `
		SELECT coalesce(max(id), 0), `+db.Either(`coalesce(max(id), 0) - ?1`, `(SELECT count(*) FROM unembedded_messages)`)+` FROM messages`, s.done).
		Scan(&newest, &left)
	return newest, max(left, 0), err
}

// Message is a message that needs a vector.
type Message struct {
	Text string

	id, conversation, seq int64
}

// Claim has messages for which one owner makes vectors.
type Claim struct {
	Messages []Message
	Length   int // the number of dimensions that the vectors must have; 0 = any

	owner      string
	generation Generation
	done       int64 // state.done at the time of the claim
}

const (
	claimLasts = time.Minute // how long other owners of the same process leave a claim alone
	claimRows  = 64          // the maximum number of messages of a claim
	claimBytes = 128 << 10   // the maximum number of bytes of their text; a longer message is claimed alone
	aheadRows  = 2000        // the maximum number of messages that are read to find those of a claim
)

// needsVector is the condition on a row of messages, in a conversation c, that it gets a vector: a person or the model wrote it,
// and it is neither internal, replaced, taken back nor deleted. Tool calls and their results are found by words only.
const needsVector = `messages.role IN ('user', 'assistant') AND messages.content <> '' AND c.deleted = 0 AND ` + turns.Visible

// Claim claims the oldest messages that have no vector yet for an owner, whose process must have the lock. It takes over the
// claim of another process, which has lost the lock. The claim has no messages if none needs a vector, or if another owner
// in the same process has a claim that is less than a minute old. more reports whether the caller should call Claim again at
// once, after it has stored the vectors of the claim. The error is ErrOtherModel if the generation is no longer the present
// one.
func (v *Vectors) Claim(ctx context.Context, g Generation, owner Owner) (claim Claim, more bool, err error) {
	s, err := v.current(ctx, v.db, g)
	if err != nil {
		return claim, false, db.Explain(err)
	}
	_, left, err := v.left(ctx, s)
	if err != nil || left == 0 || s.heldByOther(owner, v.now()) {
		return claim, false, db.Explain(err)
	}
	err = v.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
		claim, more = Claim{}, false
		if s, err = v.current(ctx, tx, g); err != nil || s.heldByOther(owner, v.now()) {
			return err
		}
		claim, more, err = v.claim(ctx, tx, s, owner)
		return err
	})
	return claim, more, err
}

// current returns the state, or ErrOtherModel if a generation is not the present one.
func (v *Vectors) current(ctx context.Context, q db.Querier, g Generation) (s state, err error) {
	if s, err = read(ctx, q); err == nil && s.generation != g {
		err = ErrOtherModel
	}
	return s, err
}

// heldByOther reports whether another owner in the same process has the claim. A claim that would last longer than claimLasts
// does not count, since a clock was changed.
func (s state) heldByOther(owner Owner, now time.Time) bool {
	left := s.until - db.Millis(now)
	return strings.HasPrefix(s.owner, owner.Process+"/") && s.owner != owner.String() && left > 0 && left <= claimLasts.Milliseconds()
}

// claim is Claim in a transaction, after the checks.
func (v *Vectors) claim(ctx context.Context, tx db.Tx, s state, owner Owner) (claim Claim, more bool, err error) {
	if v.listed {
		return v.claimListed(ctx, tx, s, owner)
	}
	last, messages, err := ahead(ctx, tx, s, aheadRows)
	if conversation.IsDamaged(err) { // try one message, and skip it if it can't be read
		if last, messages, err = ahead(ctx, tx, s, 1); conversation.IsDamaged(err) {
			last, messages, err = s.done+1, nil, nil
		}
	}
	switch {
	case err != nil || last == s.done:
		return claim, false, err
	case len(messages) == 0:
		_, err := tx.ExecContext(ctx, `UPDATE embeddings SET done = ?`, last)
		return claim, true, err
	}
	return v.assign(ctx, tx, s, owner, messages)
}

// claimListed is claim on PostgreSQL. If none of the messages that it reads from the list needs a vector, it takes them off the
// list.
func (v *Vectors) claimListed(ctx context.Context, tx db.Tx, s state, owner Owner) (claim Claim, more bool, err error) {
	ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT message_id FROM unembedded_messages ORDER BY message_id LIMIT ?`, aheadRows))
	if err != nil || len(ids) == 0 {
		return claim, false, err
	}
	messages, err := readAhead(ctx, tx, s, `messages.id IN (SELECT value FROM `+db.EachID("?")+` ids)`, db.IDs(ids))
	if err != nil {
		return claim, false, err
	}
	if len(messages) == 0 {
		return claim, true, unlist(ctx, tx, ids)
	}
	return v.assign(ctx, tx, s, owner, messages)
}

// unlist takes messages off the list of those without a vector.
func unlist(ctx context.Context, tx db.Tx, ids []int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM unembedded_messages WHERE message_id IN (SELECT value FROM `+db.EachID("?")+` ids)`, db.IDs(ids))
	return err
}

// assign stores that an owner has the claim, and returns the claim of the messages.
func (v *Vectors) assign(ctx context.Context, tx db.Tx, s state, owner Owner, messages []Message) (claim Claim, more bool, err error) {
	_, err = tx.ExecContext(ctx, `UPDATE embeddings SET owner = ?, claimed_until = ?`, owner.String(), db.Millis(v.now().Add(claimLasts)))
	return Claim{Messages: messages, Length: int(s.length), owner: owner.String(), generation: s.generation, done: s.done}, true, err
}

// ahead reads the next n messages after state.done. It returns those that need a vector, and the id of the last message that it
// has read, which is state.done if there is none.
func ahead(ctx context.Context, tx db.Tx, s state, n int64) (last int64, list []Message, err error) {
	last = s.done
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(id), ?1) FROM (SELECT id FROM messages WHERE id > ?1 ORDER BY id LIMIT ?2) AS next`, s.done, n).Scan(&last); err != nil {
		return last, nil, err
	}
	list, err = readAhead(ctx, tx, s, `messages.id > ? AND messages.id <= ?`, s.done, last)
	return last, list, err
}

// readAhead returns the first messages that need a vector among those that a condition selects, as many as a claim may have. It
// leaves out messages that have a vector of the generation, for example after a repair of the database.
func readAhead(ctx context.Context, tx db.Tx, s state, condition string, args ...any) (list []Message, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT messages.id, conversation_id, seq, content FROM messages JOIN conversations c ON c.id = conversation_id
		WHERE `+condition+` AND `+needsVector+`
			AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = (conversation_id << 24 | seq) AND v.generation = ?)
		ORDER BY messages.id LIMIT ?`, append(args, s.generation, claimRows)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		var m Message
		if err := rows.Scan(&m.id, &m.conversation, &m.seq, &m.Text); err != nil {
			return nil, err
		}
		if size += len(m.Text); len(list) > 0 && size > claimBytes {
			break
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// Store stores the vectors of claimed messages and ends the claim. vectors has a list for each message of the claim, with a
// vector for each chunk of its text; the list is empty if the message can have no vector. Store stores nothing, and reports
// false, if the claim has passed to another owner or the generation is no longer the present one. At a message that was
// deleted or changed meanwhile it ends; the later messages are claimed again.
func (v *Vectors) Store(ctx context.Context, claim Claim, vectors [][][]float32) (stored bool, err error) {
	err = v.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		stored = false
		s, err := read(ctx, tx)
		if err != nil || s.generation != claim.generation || s.owner != claim.owner || s.done > claim.done {
			return err
		}
		done := s.done
		var made []int64
		for i, m := range claim.Messages {
			unchanged, err := m.isUnchanged(ctx, tx)
			if err != nil {
				return err
			}
			if !unchanged { // its id may belong to another message by now, which is claimed next
				break
			}
			if err := m.add(ctx, tx, s.generation, vectors[i]); err != nil {
				return err
			}
			done, made = m.id, append(made, m.id)
		}
		if v.listed {
			if done = s.done + int64(len(made)); len(made) < len(claim.Messages) {
				done++ // so that a claim of which only a part was stored can't be stored again
			}
			if err := unlist(ctx, tx, made); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE embeddings SET done = CASE WHEN done < ?1 THEN ?1 ELSE done END, length = CASE WHEN length < ?2 THEN ?2 ELSE length END, owner = '', claimed_until = 0`, done, lengthOf(vectors))
		stored = err == nil
		return err
	})
	return stored, err
}

// lengthOf returns the number of dimensions of the first vector, 0 if there is none.
func lengthOf(vectors [][][]float32) int {
	for _, chunks := range vectors {
		for _, chunk := range chunks {
			return len(chunk)
		}
	}
	return 0
}

// isUnchanged reports whether the message is still stored with the same text.
func (m Message) isUnchanged(ctx context.Context, tx db.Tx) (unchanged bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM messages WHERE id = ? AND conversation_id = ? AND seq = ? AND content = ?)`,
		m.id, m.conversation, m.seq, m.Text).Scan(&unchanged)
	return unchanged, err
}

// add stores the vectors of a message. They replace those of an earlier model.
func (m Message) add(ctx context.Context, tx db.Tx, generation Generation, chunks [][]float32) error {
	id := wordindex.RowID(m.conversation, m.seq)
	vector, signs := encode(id, chunks)
	if len(vector) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO vectors (id, generation, vector) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, vector = excluded.vector`, id, generation, vector)
	if err == nil {
		_, err = tx.ExecContext(ctx, `
			INSERT INTO vector_signs (id, generation, signs) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, signs = excluded.signs`, id, generation, signs)
	}
	return err
}

// Release ends the claim of an owner at once, so that another owner need not wait until it has expired.
func (v *Vectors) Release(ctx context.Context, owner Owner) error {
	return v.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE embeddings SET owner = '', claimed_until = 0 WHERE owner = ?`, owner.String())
		return err
	})
}

// sweepRows is how many vectors Sweep deletes in one transaction.
const sweepRows = 200

// Sweep deletes up to 200 vectors of earlier models from each table. done reports that none is left. Call it when all messages
// have vectors of the present model, which have replaced most of the earlier ones by then.
func (v *Vectors) Sweep(ctx context.Context) (done bool, err error) {
	err = v.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		done = true
		for _, table := range []string{"vectors", "vector_signs"} {
			result, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE id IN (
				SELECT id FROM `+table+` WHERE generation < (SELECT generation FROM embeddings) LIMIT ?)`, sweepRows)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			done = done && n < sweepRows
		}
		return nil
	})
	return done, err
}
