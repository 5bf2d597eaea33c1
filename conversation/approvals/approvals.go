// Package approvals stores the tool calls that a person must allow before they are made, what servers of tools want to know
// in the middle of a call, and the answers. A question is
// open until the first answer, its time limit or the end of its run. The rows survive a restart, so the question does, too.
package approvals

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
)

// Approvals stores the questions of all sessions. It is safe for concurrent use.
type Approvals struct {
	db  *db.DB
	now func() time.Time
}

// New returns the questions of a store.
func New(store *conversation.Store) *Approvals { return &Approvals{store.DB(), store.Now} }

// State says what has become of a question.
type State string

// The states of a question.
const (
	Open      State = "open"
	Allowed   State = "allowed"
	Denied    State = "denied"
	Expired   State = "expired"   // nobody answered in time
	Cancelled State = "cancelled" // the run was stopped, or its message changed or withdrawn; or it was dismissed, or can't be answered any more
)

// Question asks whether a tool call may be made, or what the server of the tool wants to know in the middle of it. It is
// bound to the exact arguments.
type Question struct {
	ID        int64
	Run       int64 // ID of the run that asks
	Session   conversation.Key
	To        conversation.Account // the channel and the bot by which it is asked
	Round     int                  // number of the round in the run's journal, from 1
	CallID    string
	Tool      string
	Arguments string   // JSON, as the model wrote it; "" once the run is stored
	Askers    []Person // people whose messages the run answers

	Definition string // how the server of the tool describes it, which the answer is bound to; "" for the gateway's own tools, and once the run is stored
	Changes    string // what the server has changed of it since the call or the tool was allowed, in words; "" = it was not allowed before

	Rememberable bool // the answer may hold for all later calls of the tool in the session

	State      State
	AskedAt    time.Time
	ExpiresAt  time.Time
	AnsweredAt time.Time // zero while the question is open
	By         string    // name of the person who answered; "" if nobody has
	Answer     int64     // ID of the inbound with the answer; 0 = it came another way
	Reminded   bool      // the chat was told that later messages wait

	Form      *Form          // what the server of the tool wants to know; nil: whether the call may be made
	Answers   map[string]any // answers to the form, by the names of its fields
	Stop      int            // how often the server has stopped the call to ask, this time included; 0 without a form
	Process   string         // name of the process that keeps the call under way until the answer; "" = the call is made again
	Delivered bool           // the server is being told the answer
}

// IsLost reports whether the server can't be told the answer any more: the call was held open by another process than this
// one, which has ended.
func (q Question) IsLost(process string) bool { return q.Process != "" && q.Process != process }

// Person is somebody's account on a platform.
type Person struct {
	Channel string `json:"channel"`
	ID      string `json:"id"`
}

// Asking is what a run asks at once: the calls of one round.
type Asking struct {
	Run    int64
	Round  int
	Calls  []Call
	Askers []Person
	Until  time.Time // when the questions expire

	Rememberable bool
}

// Call is a tool call.
type Call struct {
	ID, Tool, Arguments string
	Definition, Changes string // see Question

	Form    *Form  // what the server wants to know; nil: whether the call may be made
	Stop    int    // see Question.Stop
	Process string // see Question.Process
}

// Ask stores the questions of a run together with the messages that ask them, one for each. Calls that were asked about
// before are left out. It returns the messages that are to be sent: none where programs and pages ask for
// what is open.
func (a *Approvals) Ask(ctx context.Context, asked Asking) (due []conversation.Delivery, err error) {
	askers, err := json.Marshal(asked.Askers)
	if err != nil {
		return nil, err
	}
	err = a.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		due = nil
		for _, call := range asked.Calls {
			q, err := a.insert(ctx, tx, asked, call, string(askers))
			if err != nil {
				return err
			}
			if q.ID == 0 {
				continue
			}
			sent, err := a.send(ctx, tx, q, q.Message())
			if err != nil {
				return err
			}
			due = append(due, sent...)
		}
		// This process leaves the run in good order.
		_, err := tx.ExecContext(ctx, `UPDATE journals SET tries = 0 WHERE run_id = ?`, asked.Run)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store the questions of run %d: %w", asked.Run, err)
	}
	return due, nil
}

// insert stores a question. It returns one without an ID if it was asked before.
func (a *Approvals) insert(ctx context.Context, tx db.Tx, asked Asking, call Call, askers string) (Question, error) {
	form, err := db.JSONOrNull(call.Form, call.Form == nil)
	if err != nil {
		return Question{}, err
	}
	request := ""
	switch {
	case call.Form != nil:
		request = call.Form.Request
	case call.Definition != "": // each is asked about once
		request = fmt.Sprintf("%x", sha256.Sum256([]byte(call.Definition)))
	}
	id, err := db.Insert(ctx, tx, `
		INSERT INTO approvals (run_id, session_id, channel, account, round, call_id, tool, arguments, askers, rememberable, asked_at, expires_at,
			form, stop, request, process, definition, changes)
		SELECT run_id, session_id, channel, account, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 FROM journals WHERE run_id = ?1
		ON CONFLICT (run_id, round, call_id, stop, request) DO NOTHING`,
		asked.Run, asked.Round, db.Text(call.ID), db.Text(call.Tool), db.Text(call.Arguments), askers, asked.Rememberable && call.Form == nil,
		db.Millis(a.now()), db.Millis(asked.Until), form, call.Stop, db.Text(request), call.Process, db.Text(call.Definition), db.Text(call.Changes))
	if err != nil || id == 0 {
		return Question{}, err
	}
	return one(ctx, tx, id)
}

const columns = `
	SELECT a.id, a.run_id, s.key, a.channel, a.account, a.round, a.call_id, a.tool, a.arguments, a.askers, a.rememberable,
		a.state, a.asked_at, a.expires_at, a.answered_at, a.answered_by, a.answer, a.reminded,
		a.form, a.answers, a.stop, a.request, a.process, a.delivered, a.definition, a.changes
	FROM approvals a JOIN sessions s ON s.id = a.session_id `

// list reads questions, given what follows the columns in the query.
func list(ctx context.Context, from db.Querier, rest string, args ...any) ([]Question, error) {
	rows, err := from.QueryContext(ctx, columns+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Question
	for rows.Next() {
		q, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, q)
	}
	return found, rows.Err()
}

func scan(rows *sql.Rows) (q Question, err error) {
	var askers, answers, request string
	var asked, expires int64
	var answered, answer sql.NullInt64
	var form sql.NullString
	err = rows.Scan(&q.ID, &q.Run, &q.Session, &q.To.Channel, &q.To.ID, &q.Round, &q.CallID, &q.Tool, &q.Arguments, &askers, &q.Rememberable,
		&q.State, &asked, &expires, &answered, &q.By, &answer, &q.Reminded,
		&form, &answers, &q.Stop, &request, &q.Process, &q.Delivered, &q.Definition, &q.Changes)
	if err != nil {
		return q, err
	}
	q.AskedAt, q.ExpiresAt, q.Answer = db.FromMillis(asked), db.FromMillis(expires), answer.Int64
	if answered.Valid {
		q.AnsweredAt = db.FromMillis(answered.Int64)
	}
	if form.Valid {
		q.Form = &Form{Request: request}
		err = errors.Join(json.Unmarshal([]byte(form.String), q.Form), json.Unmarshal([]byte(answers), &q.Answers))
	}
	return q, errors.Join(err, json.Unmarshal([]byte(askers), &q.Askers))
}

// ErrNone says that there is no such question, or not any more.
var ErrNone = errors.New("no such question")

func one(ctx context.Context, from db.Querier, id int64) (Question, error) {
	return oneWhere(ctx, from, `WHERE a.id = ?`, id)
}

// oneToClose is one for a transaction that changes the question by what it reads, see toClose.
func oneToClose(ctx context.Context, tx db.Tx, id int64) (Question, error) {
	return oneWhere(ctx, tx, `WHERE a.id = ?`+toClose, id)
}

// toClose ends a query of questions for a transaction that changes them by what it reads.
var toClose = db.ToChange(`a`)

func oneWhere(ctx context.Context, from db.Querier, condition string, id int64) (Question, error) {
	found, err := list(ctx, from, condition, id)
	if err == nil && len(found) == 0 {
		return Question{}, ErrNone
	}
	if err != nil {
		return Question{}, err
	}
	return found[0], nil
}

// Get returns a question of a session. The error is ErrNone if the session has none with this ID.
func (a *Approvals) Get(ctx context.Context, key conversation.Key, id int64) (Question, error) {
	q, err := one(ctx, a.db, id)
	if err == nil && q.Session != key {
		return Question{}, ErrNone
	}
	return q, db.Explain(err)
}

// OfRun returns the questions of a run, in the order in which they were asked.
func (a *Approvals) OfRun(ctx context.Context, run int64) ([]Question, error) {
	found, err := list(ctx, a.db, `WHERE a.run_id = ? ORDER BY a.id`, run)
	return found, db.Explain(err)
}

// Open returns the open questions of a session, or of all sessions if key is "", in the order in which they were asked.
func (a *Approvals) Open(ctx context.Context, key conversation.Key) ([]Question, error) {
	found, err := list(ctx, a.db, `WHERE a.state = 'open' AND (?1 = '' OR s.key = ?1) ORDER BY a.id`, string(key))
	return found, db.Explain(err)
}

// Newest returns the session's question that was asked last. The error is ErrNone if there is none.
func (a *Approvals) Newest(ctx context.Context, key conversation.Key) (Question, error) {
	found, err := list(ctx, a.db, `WHERE s.key = ? ORDER BY a.id DESC LIMIT 1`, string(key))
	if err != nil || len(found) == 0 {
		return Question{}, errors.Join(db.Explain(err), ErrNone)
	}
	return found[0], nil
}
