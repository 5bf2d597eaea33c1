package conversation

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/state"
	"parley/conversation/steps"
)

// An archive holds all that is stored of conversations: what exports write, and what
// Import.AddArchived takes back. It is read record by record, however long a
// conversation is.

// ArchivedSession is what an archive says of a session.
type ArchivedSession struct {
	Key       Key
	Place     string
	Metadata  Metadata
	CreatedAt time.Time
	Carried   *state.State // what its next conversation begins with, nil for nothing
}

// Archived is what an archive says of a conversation before its records.
type Archived struct {
	Conversation
	Participants []Sender // whose messages were answered, by id
}

// Record is one thing that is stored of a conversation: exactly one of the fields is set.
type Record struct {
	Instructions *Instructions
	Run          *RunRecord
	Background   *BackgroundStep
	Summary      *Summary
	Message      *Message
}

// Instructions is a list of instructions that was in force in runs of a conversation.
type Instructions struct {
	Hash  string // by which runs name it
	Texts []string
}

// RunRecord is a run as it was stored.
type RunRecord struct {
	ID         int64 // as in Message.RunID
	Kind       Kind
	Status     Status
	Asked      Sender // who wrote the first message that it took
	Model      string
	Rounds     int    // model calls
	Prompt     int    // tokens
	Cached     int    // of Prompt: those that the model's server took from its cache
	Completion int    // tokens
	Messages   int64  // how many it added
	Error      string // for the operator, without secrets

	FinishReason    steps.FinishReason // why its answer is not whole
	NewConversation bool               // it began the conversation, since the one before it was over
	Instructions    string             // hash of those that were in force, "" for none or not known

	Steps     []steps.Step // none for commands, and for runs from before steps were recorded
	StartedAt time.Time
	EndedAt   time.Time
}

// BackgroundStep is a model call that was made behind the commit of a run.
type BackgroundStep struct {
	Run  int64
	Step steps.Step
}

// hashInstructions returns the hash of a list of instructions and the JSON that is stored.
func hashInstructions(texts []string) (hash string, list []byte, err error) {
	if list, err = json.Marshal(texts); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(list)
	return hex.EncodeToString(sum[:]), list, nil
}

// ArchivedSession returns what an archive says of a session, or ErrNoSession.
func (s *Store) ArchivedSession(ctx context.Context, key Key) (ArchivedSession, error) {
	session, err := s.Session(ctx, key)
	if err != nil {
		return ArchivedSession{}, err
	}
	a := ArchivedSession{Key: session.Key, Place: session.Place, Metadata: session.Metadata, CreatedAt: session.CreatedAt}
	var carried []byte
	if err := s.db.QueryRowContext(ctx, `SELECT carried FROM sessions WHERE id = ?`, session.row).Scan(&carried); err != nil {
		return a, db.Explain(err)
	}
	if len(carried) > 0 {
		err = json.Unmarshal(carried, &a.Carried)
	}
	return a, err
}

// Archived returns what an archive says of a conversation before its records.
func (s *Store) Archived(ctx context.Context, c Conversation) (Archived, error) {
	a := Archived{Conversation: c}
	rows, err := s.db.QueryContext(ctx, `
		SELECT user_id, name FROM participants WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ?) ORDER BY user_id`, c.ID)
	if err != nil {
		return a, db.Explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var who Sender
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
func (s *Store) Records(ctx context.Context, c Conversation, files bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, part := range []iter.Seq2[Record, error]{s.instructionRecords(ctx, c), s.runRecords(ctx, c), s.backgroundRecords(ctx, c), s.summaryRecords(ctx, c)} {
			for r, err := range part {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
		last := int64(0)
		for m, err := range s.AllMessages(ctx, MessageQuery{Conversation: c.ID, View: ViewAll, Before: c.Messages + 1}) {
			if err == nil && files {
				err = s.readFiles(ctx, &m)
			}
			if last = m.Seq; !yield(Record{Message: &m}, err) || err != nil {
				return
			}
		}
		if last < c.Messages {
			yield(Record{}, fmt.Errorf("message %d of %s: %w", last+1, c.ID, ErrNotFound))
		}
	}
}

// readFiles reads the bytes of the files of a message. Those that are not kept stay nil.
func (s *Store) readFiles(ctx context.Context, m *Message) (err error) {
	for i := range m.Images {
		if m.Images[i].Data, err = s.ImageData(ctx, m.Images[i]); err != nil && !isNotKept(err) {
			return fmt.Errorf("the picture %q of message %d: %w", m.Images[i].Name, m.Seq, err)
		}
	}
	for i := range m.Files {
		if m.Files[i].ID == 0 {
			continue
		}
		if m.Files[i].Data, err = s.fileData(ctx, m.Files[i].ID); err != nil && !isNotKept(err) {
			return fmt.Errorf("the file %q of message %d: %w", m.Files[i].Name, m.Seq, err)
		}
	}
	return nil
}

func isNotKept(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, sql.ErrNoRows) }

// recordPage is how many rows are read at once.
const recordPage = 100

// paged returns what a query gives for a conversation, page by page: it reads rows after
// the key ?2, which scan returns, and at most ?3.
func paged[K any](ctx context.Context, s *Store, c Conversation, query string, first K, scan func(*sql.Rows) (Record, K, error)) iter.Seq2[Record, error] {
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

func readPage[K any](ctx context.Context, s *Store, c Conversation, query string, after K, scan func(*sql.Rows) (Record, K, error)) (page []Record, last K, err error) {
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

func (s *Store) instructionRecords(ctx context.Context, c Conversation) iter.Seq2[Record, error] {
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

func (s *Store) runRecords(ctx context.Context, c Conversation) iter.Seq2[Record, error] {
	return paged(ctx, s, c, selectRuns+` WHERE `+ofConversation+` AND id > ?2 ORDER BY id LIMIT ?3`, int64(0),
		func(rows *sql.Rows) (Record, int64, error) {
			run, err := scanRun(rows)
			return Record{Run: &run}, run.ID, err
		})
}

func (s *Store) backgroundRecords(ctx context.Context, c Conversation) iter.Seq2[Record, error] {
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

func (s *Store) summaryRecords(ctx context.Context, c Conversation) iter.Seq2[Record, error] {
	return paged(ctx, s, c, `SELECT through, content, tokens, created_at FROM summaries WHERE `+ofConversation+` AND through > ?2 ORDER BY through LIMIT ?3`, int64(0),
		func(rows *sql.Rows) (Record, int64, error) {
			var sum Summary
			var at int64
			err := rows.Scan(&sum.Through, &sum.Content, &sum.Tokens, &at)
			sum.At = db.FromMillis(at)
			return Record{Summary: &sum}, sum.Through, err
		})
}

const selectRuns = `
	SELECT id, kind, status, sender, model, rounds, prompt_tokens, cached_tokens, completion_tokens, messages, error, finish_reason, new_conversation,
		instructions, steps, started_at, ended_at
	FROM ` + rows.Runs

// ReadRuns returns the runs that a condition selects, for the packages below this one:
// "WHERE … ORDER BY …" on rows.Runs.
func ReadRuns(ctx context.Context, q db.Querier, condition string, args ...any) (list []RunRecord, err error) {
	rows, err := q.QueryContext(ctx, selectRuns+condition, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		run, err := scanRun(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, run)
	}
	return list, rows.Err()
}

func scanRun(rows *sql.Rows) (run RunRecord, err error) {
	var sender, called []byte
	var finish, instructions sql.NullString
	var started, ended int64
	err = rows.Scan(&run.ID, &run.Kind, &run.Status, &sender, &run.Model, &run.Rounds, &run.Prompt, &run.Cached, &run.Completion,
		&run.Messages, &run.Error, &finish, &run.NewConversation, &instructions, &called, &started, &ended)
	if err != nil {
		return run, err
	}
	run.FinishReason, run.Instructions = steps.FinishReason(finish.String), instructions.String
	run.StartedAt, run.EndedAt = db.FromMillis(started), db.FromMillis(ended)
	if len(sender) > 0 {
		if err := json.Unmarshal(sender, &run.Asked); err != nil {
			return run, err
		}
	}
	run.Steps, err = steps.Decode(called, run.Model, run.StartedAt)
	return run, err
}
