package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/media"
)

// Delivery is one reply on its way to a platform. It exists from the commit
// that made it until the platform has taken every part of it.
type Delivery struct {
	ID       int64
	Key      Key
	Channel  string   // the adapter that sends it; "" = the one that the run's first inbound came by, which Commit fills in
	Account  string   // the platform's id of the bot that sends it, as of the inbound; filled in with Channel
	Address  string   // where the reply goes, as stored with the inbound that it answers
	Text     string   // markdown
	Actions  []Action // commands to offer below the text, where the platform has buttons
	Sent     []string // the platform's ids of the parts that it has taken
	Attempts int      // failed attempts, over all parts
	Reason   string   // why the latest try failed, for the operator, without secrets; "" when none did
	At       time.Time
	HeldAt   time.Time // since when the delivery is set aside, so that later ones of its session are sent; zero while it is not

	Keep    bool // it is not sent but kept, as its inbound says, until a program or page asks for it
	Interim bool // it is sent before its run has ended: a question, or a notice about one

	RunID   int64
	Preview string // the platform's ID of the message that shows the answer so far, as stored with the run, or that has become this reply; "" = there is none

	Transcript *Transcript // goes along as a file; nil = none
	NoFile     bool        // a long text goes as messages, not as a file, since the place takes no files; not stored

	WithPictures bool          // on Commit: the pictures that the model made, and those of tools that its answer names, are sent with the reply
	Pictures     []media.Image // of a stored delivery: the pictures that are sent with it, without their bytes

	// Of a failed one, as read with DeliveryQuery.Failed. Its Text is "" if it was deleted.
	Conversation string // ID of the conversation; "" where there is none
	Title        string // title of the conversation
}

// Transcript is a conversation as a file that goes along with a reply. It names
// the messages and does not hold them: its bytes are made when it is sent.
type Transcript struct {
	Name         string `json:"name"`         // name of the file, without a folder
	Conversation string `json:"conversation"` // ID of the conversation
	Format       string `json:"format"`       // as the package transcript names it
	From         int64  `json:"from"`         // seq of the first message
	Through      int64  `json:"through"`      // seq of the last message
}

// Action is a command that a person may give by a button.
type Action struct {
	Label   string `json:"label"`   // "Older"
	Command string `json:"command"` // as it would be written: "/history 5 2"
}

// DeliveryQuery chooses deliveries that are due. The zero value means all.
type DeliveryQuery struct {
	Key      Key       // key of the session; "" = all sessions
	Ready    bool      // only those that are not set aside
	Held     bool      // only those that are set aside
	Failed   bool      // instead of those that are due: those that the platform has refused for good, the newest first, for as long as they are kept. Only Skip and Limit apply
	Skip     int       // with Failed: number of deliveries to leave out at the beginning
	After    int64     // only deliveries with a higher ID
	Accounts []Account // only deliveries of these accounts; none = of all accounts
	Limit    int
}

// Deliveries lists the deliveries that are due, the oldest first. Those of all sessions that
// are set aside are sorted by when that happened. The list of one session leaves out rows on
// damaged pages, which the operator is told of.
func (s *Store) Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	if q.Failed {
		return s.readFailed(ctx, q)
	}
	due, err := s.readDeliveries(ctx, q, 0)
	if !IsDamaged(err) || q.Key == "" {
		return due, err
	}
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT id FROM outbox`+db.Either(` INDEXED BY outbox_due`, ``)+` WHERE state = 'due' AND session_id = (SELECT id FROM sessions WHERE key = ?) AND id > ? ORDER BY id`,
		string(q.Key), q.After))
	if err != nil {
		return nil, db.Explain(err)
	}
	due = nil
	for _, id := range ids {
		one, err := s.readDeliveries(ctx, q, id)
		switch {
		case IsDamaged(err):
			s.db.NoteDamage(fmt.Sprintf("a reply to %s that is to be sent, number %d", q.Key, id), err)
		case err != nil:
			return nil, err
		}
		if due = append(due, one...); len(due) == q.Limit {
			break
		}
	}
	return due, nil
}

// condition returns what the query asks of a row, with its parameters.
func (q DeliveryQuery) condition(id int64) (text string, args []any) {
	text, args = `o.state = 'due'`, []any{}
	if q.Key != "" {
		text, args = `s.key = ? AND o.id > ? AND `+text, []any{string(q.Key), q.After}
	}
	if q.Ready {
		text += ` AND o.held_at IS NULL`
	}
	if q.Held {
		text += ` AND o.held_at IS NOT NULL`
	}
	if id != 0 {
		text += fmt.Sprintf(` AND o.id = %d`, id)
	}
	here, names := servedBy("o", q.Accounts)
	return text + here, append(args, names...)
}

// order returns what the list is sorted by.
func (q DeliveryQuery) order() string {
	if q.Key == "" && q.Held {
		return `o.held_at, o.id`
	}
	return `o.id`
}

// readDeliveries reads the deliveries of a query, or only the one with this id unless it is 0.
func (s *Store) readDeliveries(ctx context.Context, q DeliveryQuery, id int64) ([]Delivery, error) {
	condition, args := q.condition(id)
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id
		WHERE `+condition+` ORDER BY `+q.order()+` LIMIT ?`, append(args, q.Limit)...)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var due []Delivery
	for rows.Next() {
		d, err := scanDelivery(rows)
		if err != nil {
			return nil, err
		}
		due = append(due, d)
	}
	return due, db.Explain(rows.Err())
}

// sentParts is how many parts of a delivery o stand in o.sent, and not in a row of their own.
var sentParts = db.Either(`json_array_length(o.sent)`, `json_array_length(CAST(o.sent AS json))`)

var deliveryColumns = `o.id, o.channel, o.account, o.address, o.text, o.actions, o.transcript, o.pictures, o.sent, (
		SELECT ` + db.Either(`json_group_array(part_id)`, `coalesce(json_agg(part_id), '[]')`) + `
		FROM (SELECT part_id FROM outbox_parts WHERE outbox_id = o.id AND n >= ` + sentParts + ` ORDER BY n) AS parts),
	o.attempts, o.created_at, o.held_at, (SELECT key FROM sessions WHERE sessions.id = o.session_id), o.error, o.interim, o.run_id,
	coalesce((SELECT preview FROM inbox WHERE inbox.id = o.run_id), '')`

// scanDelivery reads the deliveryColumns, and what a query has behind them.
func scanDelivery(rows *sql.Rows, more ...any) (d Delivery, err error) {
	var actions, transcript, pictures, first, rest []byte
	var at int64
	var heldAt sql.NullInt64
	err = rows.Scan(append([]any{&d.ID, &d.Channel, &d.Account, &d.Address, &d.Text, &actions, &transcript, &pictures, &first, &rest, &d.Attempts, &at, &heldAt,
		&d.Key, &d.Reason, &d.Interim, &d.RunID, &d.Preview}, more...)...)
	if err != nil {
		return d, err
	}
	for _, list := range [][]byte{first, rest} {
		var ids []string
		if err := json.Unmarshal(list, &ids); err != nil {
			return d, err
		}
		d.Sent = append(d.Sent, ids...)
	}
	d.At, d.HeldAt = db.FromMillis(at), db.FromMillis(heldAt.Int64)
	return d, errors.Join(db.FromJSON(actions, &d.Actions), db.FromJSON(transcript, &d.Transcript), db.FromJSON(pictures, &d.Pictures))
}

// Mark is the outcome of an attempt to deliver a reply.
type Mark string

const (
	MarkPart   Mark = "part"   // the platform has taken more parts: the last ones of Sent
	MarkTried  Mark = "tried"  // a try failed, and another will follow
	MarkHeld   Mark = "held"   // a try failed; the delivery is set aside, and the later ones of its session go on
	MarkSent   Mark = "sent"   // the platform has taken every part
	MarkFailed Mark = "failed" // the platform refuses it for good, or it can't be prepared for the platform
)

// Mark stores the outcome of an attempt and, except with MarkPart, the delivery's Attempts.
// reason tells the operator why the attempt failed; "" = it did not.
//
//   - MarkPart stores the parts of Sent that are not stored yet. What it costs does not
//     depend on how many are.
//   - MarkHeld keeps HeldAt if the delivery was set aside before.
//   - MarkPart and MarkSent change only a delivery that is due. They say what the platform has taken, which a process knows that has
//     lost the session meanwhile: it may store them without the membership that it had.
//   - MarkSent may wait a few milliseconds to share a transaction with another write.
//   - MarkFailed keeps the text for Redeliver, unless the conversation was deleted.
func (s *Store) Mark(ctx context.Context, d Delivery, mark Mark, reason string) error {
	write := s.db.WriteOwned
	if mark == MarkSent {
		write = s.db.WriteLazily
	}
	return write(ctx, string(d.Key), func(ctx context.Context, tx db.Tx) error {
		switch mark {
		case MarkPart:
			return insertParts(ctx, tx, d)
		case MarkTried:
			_, err := tx.ExecContext(ctx, `UPDATE outbox SET attempts = ?, error = ? WHERE id = ?`, d.Attempts, db.Text(reason), d.ID)
			return err
		case MarkHeld:
			_, err := tx.ExecContext(ctx, `
				UPDATE outbox SET held_at = coalesce(held_at, ?), attempts = ?, error = ? WHERE id = ? AND state = 'due'`,
				db.Millis(s.Now()), d.Attempts, db.Text(reason), d.ID)
			return err
		case MarkSent:
			return markSent(ctx, tx, d)
		case MarkFailed:
			return markFailed(ctx, tx, d, reason)
		}
		return fmt.Errorf("%w: a delivery is marked as %q", ErrInvalid, mark)
	})
}

func markSent(ctx context.Context, tx db.Tx, d Delivery) error {
	sent := sql.NullString{}
	if len(d.Sent) == 1 { // as nearly always: it needs no row of its own
		ids, err := json.Marshal(d.Sent)
		if err != nil {
			return err
		}
		sent = sql.NullString{String: string(ids), Valid: true}
	}
	if len(d.Sent) > 1 {
		if err := insertParts(ctx, tx, d); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE outbox SET state = ?, sent = coalesce(?, sent), attempts = ?, error = '', text = '', address = '', actions = NULL, transcript = NULL
		WHERE id = ? AND state = 'due'`, replySent, sent, d.Attempts, d.ID)
	return err
}

func markFailed(ctx context.Context, tx db.Tx, d Delivery, reason string) error {
	if err := insertParts(ctx, tx, d); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE outbox SET state = ?, attempts = ?, error = ? WHERE id = ?`,
		replyFailed, d.Attempts, db.Text(reason), d.ID)
	if err == nil {
		_, err = tx.ExecContext(ctx, rows.ForgetReply+`WHERE id = ? AND NOT EXISTS (
			SELECT 1 FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE r.id = outbox.run_id AND c.deleted = 0)`, d.ID)
	}
	return err
}

// insertParts stores the platform's ids of those parts of a delivery that are not stored yet. It does nothing if the delivery is
// not due.
func insertParts(ctx context.Context, tx db.Tx, d Delivery) error {
	var stored int
	err := tx.QueryRowContext(ctx, `
		SELECT coalesce((SELECT max(n) + 1 FROM outbox_parts WHERE outbox_id = o.id), `+sentParts+`)
		FROM outbox o WHERE o.id = ? AND o.state = 'due'`, d.ID).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) { // it was deleted or marked meanwhile
		return nil
	}
	for n := stored; n < len(d.Sent) && err == nil; n++ {
		_, err = tx.ExecContext(ctx, `INSERT INTO outbox_parts (outbox_id, n, part_id) VALUES (?, ?, ?)`, d.ID, n, d.Sent[n])
	}
	return err
}

// readFailed reads the deliveries that failed, the newest first, with their runs.
func (s *Store) readFailed(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`, coalesce(c.uuid, ''), coalesce(c.title, ''), `+sendable+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id JOIN runs r ON r.id = o.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
		WHERE o.state = 'failed' ORDER BY o.id DESC LIMIT ? OFFSET ?`, q.Limit, q.Skip)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Delivery
	for rows.Next() {
		d, err := scanFailed(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, db.Explain(rows.Err())
}

// sendable is the condition that the text of a failed delivery was not deleted, and is not
// about to be.
const sendable = `(o.text <> '' AND (r.conversation_id IS NULL OR c.id IS NOT NULL))`

func scanFailed(rows *sql.Rows) (d Delivery, err error) {
	var conversation, title string
	var sendable bool
	d, err = scanDelivery(rows, &conversation, &title, &sendable)
	if d.Conversation, d.Title = conversation, title; !sendable {
		d.Text, d.Actions, d.Transcript = "", nil, nil
	}
	return d, err
}

// Redeliver makes a failed delivery due again and returns it as it is then. The caller wakes
// the sender of its channel. Parts that the platform has taken are not sent again. The error
// is ErrNotFailed if the delivery is not a failed one any more, or its text was deleted.
func (s *Store) Redeliver(ctx context.Context, id int64) (again Delivery, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		again, err = redeliver(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("send delivery %d again: %w", id, err)
		}
		return nil
	})
	return again, err
}

func redeliver(ctx context.Context, tx db.Tx, id int64) (d Delivery, err error) {
	result, err := tx.ExecContext(ctx, `
		UPDATE outbox SET state = 'due', attempts = 0, error = '', held_at = NULL
		WHERE state = 'failed' AND id = (
			SELECT o.id FROM outbox o JOIN runs r ON r.id = o.run_id LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			WHERE o.id = ? AND `+sendable+`)`, id)
	if err != nil {
		return d, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return d, cmp.Or(err, ErrNotFailed)
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+deliveryColumns+` FROM outbox o WHERE o.id = ?`, id)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	if !rows.Next() {
		return d, errors.Join(rows.Err(), ErrNotFailed)
	}
	return scanDelivery(rows)
}

// The state of a reply in the outbox.
const (
	replyDue    = "due"
	replySent   = "sent"
	replyFailed = "failed"
	replyKept   = "kept"
)

// newReply is a reply of a run, and its row.
type newReply struct {
	Delivery
	row db.Added
}

// insertReplies stores the replies of a run.
func insertReplies(ctx context.Context, tx db.Tx, run Run, session int64, done Committed, at time.Time) ([]newReply, error) {
	replies := make([]newReply, len(run.Replies))
	if len(replies) > 1 { // after a /stop, for several places: as read from the store, none has the preview
		if _, err := tx.ExecContext(ctx, `UPDATE inbox SET preview = '' WHERE id = ?`, run.ID()); err != nil {
			return nil, err
		}
	}
	for i, d := range run.Replies {
		d.Key, d.RunID, d.Text, d.At = run.Key, run.ID(), db.Text(d.Text), at
		if i == 0 {
			d.Preview = run.Took[0].Preview
		}
		if d.Channel == "" {
			d.Channel, d.Account = run.Took[0].Channel(), run.Took[0].Account
		}
		actions, err := db.JSONOrNull(d.Actions, len(d.Actions) == 0)
		if err != nil {
			return nil, err
		}
		transcript, err := db.JSONOrNull(d.Transcript, d.Transcript == nil)
		if err != nil {
			return nil, err
		}
		if d.WithPictures {
			d.Pictures = picturesOf(done.Messages)
		}
		pictures, err := db.JSONOrNull(d.Pictures, len(d.Pictures) == 0)
		if err != nil {
			return nil, err
		}
		state := replyDue
		if d.Keep {
			state = replyKept
		}
		replies[i].Delivery = d
		err = db.InsertLater(ctx, tx, &replies[i].row, `
			INSERT INTO outbox (session_id, run_id, channel, account, address, text, actions, transcript, pictures, state, through, notice, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			session, run.ID(), d.Channel, d.Account, d.Address, d.Text, actions, transcript, pictures, state,
			sql.NullInt64{Int64: done.Conversation.Messages, Valid: d.Keep}, d.Keep && !holdsReply(done.Messages), db.Millis(at))
		if err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// dueReplies returns those of a run's replies that are to be sent.
func (s *Store) dueReplies(ctx context.Context, run Run, replies []newReply) (due []Delivery, err error) {
	for i, reply := range replies {
		if reply.row.Unknown {
			ids, err := db.Column[int64](s.db.QueryContext(ctx, `
				SELECT id FROM outbox WHERE session_id = (SELECT id FROM sessions WHERE key = ?) AND run_id = ? AND interim = 0 ORDER BY id`, string(run.Key), run.ID()))
			if err == nil && len(ids) != len(replies) {
				err = fmt.Errorf("run %d of %s has %d replies in the store and not %d", run.ID(), run.Key, len(ids), len(replies))
			}
			if err != nil {
				return nil, db.Explain(err)
			}
			reply.row.ID = ids[i]
		}
		if reply.ID = reply.row.ID; !reply.Keep {
			due = append(due, reply.Delivery)
		}
	}
	return due, nil
}

// picturesOf returns the pictures among a run's messages that go along with its reply: those
// that the model has made, and those of tools that its answer names.
func picturesOf(messages []Message) (list []media.Image) {
	if len(messages) == 0 {
		return nil
	}
	answer := messages[len(messages)-1].Content
	for _, m := range messages {
		for _, picture := range m.Images {
			named := m.Role == RoleTool && strings.Contains(answer, picture.Name)
			if (m.Role == RoleAssistant || named) && !slices.ContainsFunc(list, func(p media.Image) bool { return p.Name == picture.Name }) {
				list = append(list, picture)
			}
		}
	}
	return list
}

// holdsReply reports whether the messages of a run end with its reply.
func holdsReply(messages []Message) bool {
	n := len(messages)
	return n > 0 && messages[n-1].Role == RoleAssistant
}
