// Package archive reads all that is stored of conversations, for exports, and stores
// conversations that come from exports or from other programs. Both go record by record,
// however long a conversation is.
package archive

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/internal/branching"
	"parley/conversation/internal/db"
	"parley/conversation/metadata"
	"parley/conversation/runs"
	"parley/conversation/state"
	"parley/conversation/steps"
)

// Archive reads what is stored, and imports.
type Archive struct {
	store *conversation.Store
	db    *db.DB
}

// New returns the archive of a store.
func New(store *conversation.Store) *Archive { return &Archive{store, store.DB()} }

// Session is what an archive says of a session.
type Session struct {
	Key       conversation.Key
	Place     string
	Pinned    bool
	Metadata  metadata.Object
	CreatedAt time.Time
	Carried   *state.State // what the session's next conversation begins with; nil for nothing
	Model     string       // model that was chosen for the session; "" for none
	Agent     string       // agent that was chosen for the session; "" for none
}

// Head is what an archive says of a conversation before its records.
type Head struct {
	conversation.Conversation
	Participants []conversation.Sender // people whose messages were answered, in the order of their IDs
	Branches     Branches
}

// Branches is what is stored of the branches of a conversation beside its messages.
type Branches = branching.Stored

// BranchStart is the first message of a branch, and the one that it follows.
type BranchStart = branching.Start

// BranchEnd is the last message of a branch that was left, and the state there.
type BranchEnd = branching.BranchEnd

// Record is one thing that is stored of a conversation: exactly one of the fields is set.
type Record struct {
	Instructions *Instructions
	Run          *runs.Record
	Background   *BackgroundStep
	Summary      *conversation.Summary
	Message      *conversation.Message
}

// Instructions is a list of instructions that was in force in runs of a conversation.
type Instructions struct {
	Hash  string // hash by which runs refer to the instructions
	Texts []string
}

// BackgroundStep is a model call that was made behind the commit of a run.
type BackgroundStep struct {
	Run  int64
	Step steps.Step
}

// Session returns what an archive says of a session, or ErrNoSession.
func (s *Archive) Session(ctx context.Context, key conversation.Key) (Session, error) {
	a := Session{Key: key}
	var noted sql.NullString
	var created int64
	var carried []byte
	err := s.db.QueryRowContext(ctx, `SELECT place, pinned, metadata, created_at, carried, coalesce(model, ''), coalesce(agent, '') FROM sessions WHERE key = ?`, string(key)).
		Scan(&a.Place, &a.Pinned, &noted, &created, &carried, &a.Model, &a.Agent)
	if errors.Is(err, sql.ErrNoRows) {
		return a, fmt.Errorf("%w: %q", conversation.ErrNoSession, key)
	}
	if err != nil {
		return a, db.Explain(err)
	}
	a.Metadata, a.CreatedAt = metadata.Object(noted.String), db.FromMillis(created)
	return a, db.FromJSON(carried, &a.Carried)
}

// Head returns what an archive says of a conversation before its records. The error is
// ErrNotFound when the conversation is deleted meanwhile.
func (s *Archive) Head(ctx context.Context, c conversation.Conversation) (a Head, err error) {
	a.Conversation = c
	if a.Branches, err = branching.Load(ctx, s.db, c.Row(), c.Messages); errors.Is(err, sql.ErrNoRows) {
		err = conversation.ErrNotFound
	}
	if err != nil {
		return a, db.Explain(err)
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT user_id, name FROM participants WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?) ORDER BY user_id`, c.ID)
	if err != nil {
		return a, db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var who conversation.Sender
		if err := rows.Scan(&who.ID, &who.Name); err != nil {
			return a, err
		}
		a.Participants = append(a.Participants, who)
	}
	return a, db.Explain(rows.Err())
}

// Records returns all that is stored of a conversation, in the order of the fields of
// Record, and each kind in its own order. Of the messages these are the first ones, as many
// as c has. With files, the messages have the bytes of their files, where they are kept.
// Nothing stays open in between. An error comes with the last record; it is ErrNotFound
// when the conversation is deleted meanwhile.
func (s *Archive) Records(ctx context.Context, c conversation.Conversation, files bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, part := range []iter.Seq2[Record, error]{s.instructionRecords(ctx, c), s.runRecords(ctx, c), s.backgroundRecords(ctx, c), s.summaryRecords(ctx, c)} {
			for r, err := range part {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
		last := int64(0)
		for m, err := range s.store.AllMessages(ctx, conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll, Before: c.Messages + 1}) {
			if err == nil && files {
				err = s.readFiles(ctx, &m)
			}
			if last = m.Seq; !yield(Record{Message: &m}, err) || err != nil {
				return
			}
		}
		if last < c.Messages {
			yield(Record{}, fmt.Errorf("message %d of %s: %w", last+1, c.ID, conversation.ErrNotFound))
		}
	}
}

// readFiles reads the bytes of the files of a message. Those that are not kept stay nil.
func (s *Archive) readFiles(ctx context.Context, m *conversation.Message) (err error) {
	for i := range m.Images {
		if m.Images[i].Data, err = s.store.ImageData(ctx, m.Images[i]); err != nil && !isNotKept(err) {
			return fmt.Errorf("the picture %q of message %d: %w", m.Images[i].Name, m.Seq, err)
		}
	}
	for i := range m.Files {
		if m.Files[i].ID == 0 {
			continue
		}
		if m.Files[i].Data, err = files.New(s.store).Data(ctx, m.Files[i].ID); err != nil && !isNotKept(err) {
			return fmt.Errorf("the file %q of message %d: %w", m.Files[i].Name, m.Seq, err)
		}
	}
	return nil
}

func isNotKept(err error) bool {
	return errors.Is(err, conversation.ErrNotFound) || errors.Is(err, sql.ErrNoRows)
}

// recordPage is how many rows are read at once.
const recordPage = 100

// paged returns what a query gives for a conversation, page by page: it reads rows after
// the key ?2, which scan returns, and at most ?3.
func paged[K any](ctx context.Context, s *Archive, c conversation.Conversation, query string, first K, scan func(*sql.Rows) (Record, K, error)) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for after, more := first, true; more; {
			page, last, err := readPage(ctx, s, c, query, after, scan)
			if err != nil {
				yield(Record{}, fmt.Errorf("read %s: %w", c.ID, db.Explain(err)))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			after, more = last, len(page) == recordPage
		}
	}
}

func readPage[K any](ctx context.Context, s *Archive, c conversation.Conversation, query string, after K, scan func(*sql.Rows) (Record, K, error)) (page []Record, last K, err error) {
	rows, err := s.db.QueryContext(ctx, query, c.ID, after, recordPage)
	if err != nil {
		return nil, after, err
	}
	defer rows.Close()
	for rows.Next() {
		r, key, err := scan(rows)
		if err != nil {
			return nil, after, err
		}
		page, last = append(page, r), key
	}
	return page, last, rows.Err()
}

const ofConversation = `conversation_id = (SELECT id FROM conversations WHERE uuid = ?1 AND deleted = 0)`

func (s *Archive) instructionRecords(ctx context.Context, c conversation.Conversation) iter.Seq2[Record, error] {
	return paged(ctx, s, c, `SELECT hash, list FROM run_instructions WHERE `+ofConversation+` AND hash > ?2 ORDER BY hash LIMIT ?3`, "",
		func(rows *sql.Rows) (Record, string, error) {
			var i Instructions
			var list []byte
			err := rows.Scan(&i.Hash, &list)
			if err == nil {
				err = json.Unmarshal(list, &i.Texts)
			}
			return Record{Instructions: &i}, i.Hash, err
		})
}

func (s *Archive) runRecords(ctx context.Context, c conversation.Conversation) iter.Seq2[Record, error] {
	return paged(ctx, s, c, runs.Select+` WHERE `+ofConversation+` AND id > ?2 ORDER BY id LIMIT ?3`, int64(0),
		func(rows *sql.Rows) (Record, int64, error) {
			run, err := runs.Scan(rows)
			return Record{Run: &run}, run.ID, err
		})
}

func (s *Archive) backgroundRecords(ctx context.Context, c conversation.Conversation) iter.Seq2[Record, error] {
	return paged(ctx, s, c, `SELECT id, run_id, step, started_at FROM background_steps WHERE `+ofConversation+` AND id > ?2 ORDER BY id LIMIT ?3`, int64(0),
		func(rows *sql.Rows) (Record, int64, error) {
			var b BackgroundStep
			var id, started int64
			var step string
			if err := rows.Scan(&id, &b.Run, &step, &started); err != nil {
				return Record{}, 0, err
			}
			list, err := steps.Decode([]byte("["+step+"]"), "", db.FromMillis(started))
			if err == nil {
				b.Step = list[0]
			}
			return Record{Background: &b}, id, err
		})
}

func (s *Archive) summaryRecords(ctx context.Context, c conversation.Conversation) iter.Seq2[Record, error] {
	return paged(ctx, s, c, `SELECT through, content, tokens, created_at FROM summaries WHERE `+ofConversation+` AND through > ?2 ORDER BY through LIMIT ?3`, int64(0),
		func(rows *sql.Rows) (Record, int64, error) {
			var sum conversation.Summary
			var at int64
			err := rows.Scan(&sum.Through, &sum.Content, &sum.Tokens, &at)
			sum.At = db.FromMillis(at)
			return Record{Summary: &sum}, sum.Through, err
		})
}
