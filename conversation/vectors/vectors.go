// Package vectors stores the vectors of messages, which embedding models make, and finds the messages whose vectors
// come closest to that of a query.
//
// What makes the vectors takes [Vectors.Lock], calls [Vectors.Use] with its model once, and then takes turns of
// [Vectors.Claim], the model and [Vectors.Store]. Each message has its vector once, whichever of several processes makes
// it and wherever one of them dies: a claim keeps others away, and Store stores nothing that is no longer claimed.
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
	listed bool       // on PostgreSQL, the table unembedded_messages lists what has no vector: ids are no order of commits there
}

// New returns the vectors of a store.
func New(store *conversation.Store) *Vectors {
	cache := store.DB().Shared(cacheKey{}, func() any { return &signCache{known: map[int64]signs{}} })
	return &Vectors{store.DB(), store.Now, cache.(*signCache), db.IsURL(store.Path())}
}

// Model identifies the model that makes vectors. Vectors of different models can't be compared.
type Model struct {
	Name       string
	Dimensions int // that are asked for; 0 = as many as it has
}

// Lock makes this process the only one that makes vectors, until release is called or the process dies. ok is false while
// another one is.
func (v *Vectors) Lock() (release func(), ok bool, err error) {
	release, err = v.db.Lock("embeddings")
	if held := new(db.HeldError); errors.As(err, &held) {
		return nil, false, nil
	}
	return release, err == nil, err
}

// Owner identifies one user of this package in a process, which makes vectors.
type Owner struct {
	Process string // that no other process has
	Name    string // that no other one in it has
}

func (o Owner) String() string { return o.Process + "/" + o.Name }

// ErrOtherModel says that another process uses another model by now.
var ErrOtherModel = errors.New("another process uses another embedding model with this database")

// Generation names the vectors of one model in one database.
type Generation int64

// Use sets the model that makes the vectors from now on. If it is another one than before, renewed is true: the vectors of
// that one are no longer found, and all messages get new ones.
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
			if err := list(ctx, tx); err != nil {
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

// list lists all messages. The lock keeps others from being stored until the model is set, from when on a trigger lists them.
func list(ctx context.Context, tx db.Tx) error {
	if _, err := tx.ExecContext(ctx, `LOCK TABLE messages IN SHARE ROW EXCLUSIVE MODE`); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO unembedded_messages (message_id) SELECT id FROM messages ON CONFLICT DO NOTHING`)
	return err
}

// state is the row of the table embeddings. Its generation is 0 if there is none.
type state struct {
	Model
	generation   Generation
	length, done int64 // done is the newest message that needs no vector any more; where they are listed, how many have got theirs
	owner        string
	until        int64 // milliseconds
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
	Done, Total int64 // messages that need no vector any more, and all that are stored
}

// Progress returns how far the vectors of the present model have come, the zero value if none was ever used.
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

// left returns the id of the newest message, and how many messages may need a vector yet.
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

// Claim is messages that one owner makes the vectors of.
type Claim struct {
	Messages []Message
	Length   int // that the vectors must have; 0 = any

	owner      string
	generation Generation
	done       int64 // as it was when they were claimed
}

const (
	claimLasts   = time.Minute // after which another owner may take over
	claimRows    = 64          // messages of a claim
	claimBytes   = 128 << 10   // of their text; a longer message is claimed alone
	claimedAhead = 2000        // messages that are looked at for it
)

// embedded is the condition on a row of messages, of a conversation c, that it gets a vector: somebody or the model said it, and
// it is still part of the talk. What tools were called with and gave is found by its words.
const embedded = `messages.role IN ('user', 'assistant') AND messages.content <> '' AND c.deleted = 0 AND ` + turns.InTalk

// Claim takes the oldest messages that have no vector yet for an owner, whose process has the lock. The claim of a process
// that no longer has it counts for nothing. The claim has no messages if there are none to take, or another owner is at
// them. more reports whether to ask again
// at once. The error is ErrOtherModel if the vectors of the generation are no longer used.
func (v *Vectors) Claim(ctx context.Context, g Generation, owner Owner) (claim Claim, more bool, err error) {
	s, err := v.current(ctx, v.db, g)
	if err != nil {
		return claim, false, db.Explain(err)
	}
	_, left, err := v.left(ctx, s)
	if err != nil || left == 0 || s.takenFrom(owner, v.now()) {
		return claim, false, db.Explain(err)
	}
	err = v.db.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
		claim, more = Claim{}, false
		if s, err = v.current(ctx, tx, g); err != nil || s.takenFrom(owner, v.now()) {
			return err
		}
		claim, more, err = v.claim(ctx, tx, s, owner)
		return err
	})
	return claim, more, err
}

// current returns the state if its vectors are those of a generation.
func (v *Vectors) current(ctx context.Context, q db.Querier, g Generation) (s state, err error) {
	if s, err = read(ctx, q); err == nil && s.generation != g {
		err = ErrOtherModel
	}
	return s, err
}

// takenFrom reports whether another owner in the same process has the claim.
func (s state) takenFrom(owner Owner, now time.Time) bool {
	left := s.until - db.Millis(now)
	return strings.HasPrefix(s.owner, owner.Process+"/") && s.owner != owner.String() && left > 0 && left <= claimLasts.Milliseconds() // else a clock was changed
}

func (v *Vectors) claim(ctx context.Context, tx db.Tx, s state, owner Owner) (claim Claim, more bool, err error) {
	if v.listed {
		return v.claimListed(ctx, tx, s, owner)
	}
	last, messages, err := ahead(ctx, tx, s, claimedAhead)
	if conversation.IsDamaged(err) { // past a message that can't be read
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
	return v.own(ctx, tx, s, owner, messages)
}

// claimListed is claim where messages without a vector are listed. Listed messages that need none are taken off the list.
func (v *Vectors) claimListed(ctx context.Context, tx db.Tx, s state, owner Owner) (claim Claim, more bool, err error) {
	ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT message_id FROM unembedded_messages ORDER BY message_id LIMIT ?`, claimedAhead))
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
	return v.own(ctx, tx, s, owner, messages)
}

// unlist takes messages off the list of those without a vector.
func unlist(ctx context.Context, tx db.Tx, ids []int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM unembedded_messages WHERE message_id IN (SELECT value FROM `+db.EachID("?")+` ids)`, db.IDs(ids))
	return err
}

// own stores that an owner makes the vectors of some messages.
func (v *Vectors) own(ctx context.Context, tx db.Tx, s state, owner Owner, messages []Message) (claim Claim, more bool, err error) {
	_, err = tx.ExecContext(ctx, `UPDATE embeddings SET owner = ?, claimed_until = ?`, owner.String(), db.Millis(v.now().Add(claimLasts)))
	return Claim{Messages: messages, Length: int(s.length), owner: owner.String(), generation: s.generation, done: s.done}, true, err
}

// ahead returns the next messages that need a vector, of so many messages, and the last that it has looked at. After a
// repair of the file some have theirs.
func ahead(ctx context.Context, tx db.Tx, s state, n int64) (last int64, list []Message, err error) {
	last = s.done
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(id), ?1) FROM (SELECT id FROM messages WHERE id > ?1 ORDER BY id LIMIT ?2) AS next`, s.done, n).Scan(&last); err != nil {
		return last, nil, err
	}
	list, err = readAhead(ctx, tx, s, `messages.id > ? AND messages.id <= ?`, s.done, last)
	return last, list, err
}

// readAhead returns the first messages that need a vector among those that a condition selects.
func readAhead(ctx context.Context, tx db.Tx, s state, condition string, args ...any) (list []Message, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT messages.id, conversation_id, seq, content FROM messages JOIN conversations c ON c.id = conversation_id
		WHERE `+condition+` AND `+embedded+`
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

// Store stores the vectors of claimed messages: of each message those of its chunks, or none, if it can have none. It
// stores nothing, and reports false, if the claim has passed to another owner or the model is no longer used. Messages
// that were deleted meanwhile get no vector.
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
			there, err := m.isThere(ctx, tx)
			if err != nil {
				return err
			}
			if !there { // its id may belong to another message by now, which is claimed next
				break
			}
			if err := m.add(ctx, tx, s.generation, vectors[i]); err != nil {
				return err
			}
			done, made = m.id, append(made, m.id)
		}
		if v.listed {
			if done = s.done + int64(len(made)); len(made) < len(claim.Messages) {
				done++ // so that a claim that is half done is not stored again
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

func lengthOf(vectors [][][]float32) int {
	for _, chunks := range vectors {
		for _, chunk := range chunks {
			return len(chunk)
		}
	}
	return 0
}

func (m Message) isThere(ctx context.Context, tx db.Tx) (there bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM messages WHERE id = ? AND conversation_id = ? AND seq = ? AND content = ?)`,
		m.id, m.conversation, m.seq, m.Text).Scan(&there)
	return there, err
}

// add stores the vectors of a message in place of those that an earlier model has made.
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

// Release ends the claim of an owner, so that another one need not wait for its end.
func (v *Vectors) Release(ctx context.Context, owner Owner) error {
	return v.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE embeddings SET owner = '', claimed_until = 0 WHERE owner = ?`, owner.String())
		return err
	})
}

// sweepRows is how many vectors Sweep deletes in one transaction.
const sweepRows = 200

// Sweep deletes some vectors that an earlier model has made. done reports that there are none. It is for when all
// messages have those of the present model: most of the others are replaced by then.
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
