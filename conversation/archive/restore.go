package archive

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/toolcalls"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/runs"
	"parley/conversation/steps"
)

// maxRunID is the highest number of an imported run. New runs get higher ones, which
// programs in JavaScript can still tell apart.
const maxRunID = 1 << 52

// archivedMetadata is how many bytes of metadata are taken from an archive, where
// characters that do not print are escaped by six.
const archivedMetadata = 6 * metadata.MaxBytes

// hasConversations is the condition that the session ?1 has conversations.
const hasConversations = `EXISTS (SELECT 1 FROM conversations WHERE session_id = ?1 AND deleted = 0)`

// Into makes the session that an archive describes the target of the conversations that follow. A new
// session is made as it was; an existing one gets what it does not have yet. A conversation that was
// active stays active, unless the session has another active one.
func (im *Import) Into(ctx context.Context, a Session) error {
	metadata, err := a.Metadata.CheckedUpTo(archivedMetadata)
	if err == nil {
		err = checkNames(a.Place, a.Model, a.Agent)
	}
	if err != nil {
		return err
	}
	var carried []byte
	if a.Carried != nil {
		if err := rows.CheckInstructions(a.Carried.Instructions); err != nil {
			return err
		}
		if carried, err = json.Marshal(a.Carried); err != nil {
			return err
		}
	}
	return im.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		id, key, err := rows.EnterSession(ctx, tx, string(a.Key), "", db.Millis(a.CreatedAt))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE sessions SET place = CASE WHEN place = '' THEN ?2 ELSE place END, metadata = coalesce(metadata, ?3), carried = CASE
				WHEN `+hasConversations+` THEN carried ELSE coalesce(carried, ?4) END, pinned = CASE WHEN `+hasConversations+` THEN pinned ELSE ?5 END,
				model = coalesce(model, ?6), agent = coalesce(agent, ?7) WHERE id = ?1`,
			id, db.Text(a.Place), db.Nullable(string(metadata)), db.Nullable(string(carried)), a.Pinned, db.Nullable(db.Text(a.Model)), db.Nullable(db.Text(a.Agent)))
		im.key, im.goesOn, im.opened = conversation.Key(key), true, false
		return err
	})
}

// Open makes the session with a key, which is created if it is new, the target of the conversations
// that follow. They become active there as if they had been resumed: they are kept for as long as one
// that was used at the time of the import. If the session has an active conversation, they are archived.
func (im *Import) Open(ctx context.Context, key conversation.Key, created time.Time) error {
	err := im.Into(ctx, Session{Key: key, CreatedAt: created})
	im.opened = err == nil
	return err
}

// Restore stores a conversation of an archive whole, or not at all. added is false
// when it is there already, in whatever session. What can't have been stored in this form
// is ErrInvalid. The bytes of files are kept whatever the limits for files are.
func (im *Import) Restore(ctx context.Context, a Head, records iter.Seq2[Record, error]) (added bool, err error) {
	if known, err := im.Known(ctx, a.ID); known || err != nil {
		return false, err
	}
	if err := rows.CheckInstructions(a.State.Instructions); err != nil {
		return false, err
	}
	if err := checkBranches(a); err != nil {
		return false, err
	}
	if err := checkHead(a); err != nil {
		return false, err
	}
	in := restoring{Import: im, of: a}
	err = in.write(ctx, in.stage)
	if err == nil {
		err = in.addAll(ctx, records)
	}
	if err == nil {
		err = in.write(ctx, in.finish)
	}
	if err != nil {
		return false, cmp.Or(err, im.abandon(ctx, in.row), im.store.Sweep(context.WithoutCancel(ctx))) // the first tells why the others have failed
	}
	return true, nil
}

// checkBranches returns ErrInvalid for branches that can't have been stored.
func checkBranches(a Head) error {
	if err := a.Branches.Check(a.Messages); err != nil {
		return fmt.Errorf("%w: found %w", conversation.ErrInvalid, err)
	}
	for _, end := range a.Branches.Ends {
		if err := rows.CheckInstructions(end.State.Instructions); err != nil {
			return err
		}
	}
	return nil
}

// maxName is how many bytes a title, a name, or what people call a place may have: more than any has that was stored here. They are
// in lists, which would be too long otherwise.
const maxName = 2 << 10

// checkNames returns ErrInvalid for a name that can't have been stored.
func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxName {
			return fmt.Errorf("%w: found a name of %d bytes", conversation.ErrInvalid, len(name))
		}
	}
	return nil
}

func checkHead(a Head) error {
	names := []string{a.Title}
	for _, who := range a.Participants {
		names = append(names, who.ID, who.Name)
	}
	return checkNames(names...)
}

// maxCount is the highest number of tokens, calls or messages that a record may have: more than any has that was stored here. Sums of
// them must stay numbers of 64 bits.
const maxCount = 1 << 30

// checkCounts returns an error for numbers that can't have been stored.
func checkCounts(counts ...int) error {
	for _, n := range counts {
		if n < 0 || n > maxCount {
			return fmt.Errorf("the number %d, allowed: up to %d", n, maxCount)
		}
	}
	return nil
}

// checkRun returns an error for a run that can't have been stored.
func (in *restoring) checkRun(run runs.Record) error {
	switch {
	case run.ID <= in.runs || run.ID > maxRunID:
		return fmt.Errorf("run %d follows run %d", run.ID, in.runs)
	case !slices.Contains([]conversation.Kind{conversation.KindAgent, conversation.KindCommand}, run.Kind) ||
		!slices.Contains([]conversation.Status{conversation.StatusDone, conversation.StatusFailed, conversation.StatusStopped}, run.Status):
		return fmt.Errorf("run %d is of the kind %q with the status %q", run.ID, run.Kind, run.Status)
	}
	in.runs = run.ID
	err := checkCounts(run.Rounds, run.Prompt, run.Cached, run.Completion, int(run.Messages))
	for _, step := range run.Steps {
		err = errors.Join(err, checkStep(step))
	}
	return err
}

func checkStep(s steps.Step) error {
	return checkCounts(s.Prompt, s.Cached, s.Completion, int(s.Shown), int(s.Left), s.Window)
}

// restoring is a conversation of an archive that is being stored.
type restoring struct {
	*Import
	of     Head
	row    int64
	seq    int64 // seq of the last message
	tokens int64
	calls  toolcalls.Checker
	runs   int64 // the highest ID of a run so far

	batch []Record
	size  int // bytes of the texts in the batch
}

// write runs a transaction, and rests afterwards, so that half of the time is for others.
func (in *restoring) write(ctx context.Context, f func(context.Context, db.Tx) error) error {
	began := time.Now()
	err := in.db.Write(ctx, f)
	giveWay(ctx, began)
	return err
}

// stage inserts the conversation, hidden.
func (in *restoring) stage(ctx context.Context, tx db.Tx) error {
	session, _, err := rows.EnterSession(ctx, tx, string(in.key), "", db.Millis(in.store.Now()))
	if err != nil {
		return err
	}
	state, err := json.Marshal(in.of.State)
	if err != nil {
		return err
	}
	noted, err := in.of.Metadata.CheckedUpTo(archivedMetadata)
	if err != nil {
		return err
	}
	in.row, err = db.Insert(ctx, tx, `
		INSERT INTO conversations (uuid, session_id, title, active, deleted, staged, state, metadata, created_at, updated_at) VALUES (?, ?, ?, 0, 1, 1, ?, ?, ?, ?)`,
		in.of.ID, session, db.Text(in.of.Title), string(state), db.Nullable(string(noted)), db.Millis(in.of.CreatedAt), db.Millis(in.of.UpdatedAt))
	if err != nil {
		return err
	}
	if err := in.of.Branches.Store(ctx, tx, in.row); err != nil {
		return err
	}
	for _, who := range in.of.Participants {
		_, err := tx.ExecContext(ctx, `INSERT INTO participants (conversation_id, user_id, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, in.row, db.Text(who.ID), db.Text(who.Name))
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *restoring) addAll(ctx context.Context, records iter.Seq2[Record, error]) error {
	for r, err := range records {
		if err == nil {
			err = in.check(r)
		}
		if err == nil && (len(in.batch) == importBatch || len(in.batch) > 0 && in.size+r.bytes() > importBytes) {
			err = in.flush(ctx)
		}
		if err != nil {
			return err
		}
		in.batch, in.size = append(in.batch, r), in.size+r.bytes()
	}
	return in.flush(ctx)
}

// bytes returns how much a record takes of a batch.
func (r Record) bytes() (n int) {
	switch {
	case r.Message != nil:
		n = len(r.Message.Content)
		for _, call := range r.Message.ToolCalls {
			n += len(call.Arguments)
		}
		for _, image := range r.Message.Images {
			n += len(image.Data)
		}
		for _, file := range r.Message.Files {
			n += len(file.Data)
		}
	case r.Run != nil:
		n = 200 * len(r.Run.Steps) // about as long as they are as JSON
	case r.Summary != nil:
		n = len(r.Summary.Content)
	}
	return n
}

// check returns ErrInvalid for a record that can't have been stored.
func (in *restoring) check(r Record) error {
	var err error
	switch {
	case r.Message != nil:
		err = in.checkMessage(r.Message)
	case r.Run != nil:
		err = in.checkRun(*r.Run)
	case r.Background != nil:
		if err = checkStep(r.Background.Step); r.Background.Run <= 0 || r.Background.Run > maxRunID {
			err = fmt.Errorf("a step of the run %d", r.Background.Run)
		}
	case r.Instructions != nil:
		if hash, _, failed := rows.HashInstructions(r.Instructions.Texts); failed != nil || hash != r.Instructions.Hash {
			err = fmt.Errorf("instructions whose hash is not %q", r.Instructions.Hash)
		}
	case r.Summary != nil:
		if err = checkCounts(r.Summary.Tokens); r.Summary.Through <= 0 || r.Summary.Through > in.of.Messages {
			err = fmt.Errorf("a summary of %d messages", r.Summary.Through)
		}
	}
	if err != nil && !errors.Is(err, conversation.ErrInvalid) {
		err = fmt.Errorf("%w: found %w", conversation.ErrInvalid, err)
	}
	return err
}

func (in *restoring) checkMessage(m *conversation.Message) error {
	states := []string{"", rows.Stopped, rows.Replaced, rows.Undone, rows.LeftOut}
	switch {
	case m.Seq != in.seq+1:
		return fmt.Errorf("message %d after message %d", m.Seq, in.seq)
	case !slices.Contains([]conversation.Role{conversation.RoleUser, conversation.RoleAssistant, conversation.RoleTool, conversation.RoleSystem}, m.Role):
		return fmt.Errorf("message %d with the role %q", m.Seq, m.Role)
	case len(m.ToolCalls) > 0 && m.Role != conversation.RoleAssistant:
		return fmt.Errorf("message %d with the role %q and tool calls", m.Seq, m.Role)
	case slices.ContainsFunc(m.Images, func(i media.Image) bool { return !media.IsImageType(i.MediaType) }):
		return fmt.Errorf("message %d with a picture of a type that is none", m.Seq)
	case !slices.Contains(states, m.State):
		return fmt.Errorf("message %d with the state %q", m.Seq, m.State)
	case m.SetAside != nil && (m.State != rows.Replaced || *m.SetAside != "" && *m.SetAside != rows.Stopped && *m.SetAside != rows.LeftOut):
		return fmt.Errorf("message %d that is set aside with the state %q, and %q on its branch", m.Seq, m.State, *m.SetAside)
	case m.Tokens < 0 || m.Tokens > maxCount || m.RunID < 0 || m.RunID > maxRunID:
		return fmt.Errorf("message %d with %d tokens and the run %d", m.Seq, m.Tokens, m.RunID)
	}
	if err := m.CheckCalls(&in.calls); err != nil {
		return err
	}
	in.seq, in.tokens = m.Seq, in.tokens+int64(m.Tokens)
	m.Internal = m.Internal || m.Role == conversation.RoleSystem
	var err error
	m.Metadata, err = m.Metadata.CheckedUpTo(archivedMetadata)
	return err
}

// flush stores the batch.
func (in *restoring) flush(ctx context.Context) error {
	files, err := in.drafts()
	if err == nil {
		err = in.write(ctx, func(ctx context.Context, tx db.Tx) error {
			for i, r := range in.batch {
				if err := in.insert(ctx, tx, r, files[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, list := range files {
		for _, draft := range list {
			err = errors.Join(err, draft.Close(err == nil))
		}
	}
	in.batch, in.size = nil, 0
	return err
}

// drafts returns what the files of the batch's messages are stored from, by the place of
// the message in the batch and of the file in the message, pictures first. Large files are
// on disk then. It is to be closed also after an error.
func (in *restoring) drafts() (map[int]map[int]*blobs.Draft, error) {
	all := map[int]map[int]*blobs.Draft{}
	for i, r := range in.batch {
		if r.Message == nil {
			continue
		}
		var list [][]byte
		for _, image := range r.Message.Images {
			list = append(list, image.Data)
		}
		for _, file := range r.Message.Files {
			list = append(list, file.Data)
		}
		for n, data := range list {
			if data == nil {
				continue
			}
			draft := blobs.NewDraft(in.db.Path(), blobs.Piece)
			if all[i] == nil {
				all[i] = map[int]*blobs.Draft{}
			}
			all[i][n] = draft
			if _, err := draft.Write(data); err != nil {
				return all, err
			}
			if err := draft.Finish(); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

func (in *restoring) insert(ctx context.Context, tx db.Tx, r Record, files map[int]*blobs.Draft) (err error) {
	switch {
	case r.Message != nil:
		err = in.insertMessage(ctx, tx, *r.Message, files)
	case r.Run != nil:
		err = in.insertRun(ctx, tx, *r.Run)
	case r.Background != nil:
		var step []byte
		if step, err = steps.EncodeOne(r.Background.Step); err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO background_steps (conversation_id, run_id, step, started_at) VALUES (?, ?, ?, ?)`,
				in.row, r.Background.Run, string(step), db.Millis(r.Background.Step.At))
		}
	case r.Instructions != nil:
		err = rows.InsertInstructions(ctx, tx, in.row, r.Instructions.Texts)
	case r.Summary != nil:
		_, err = tx.ExecContext(ctx, `INSERT INTO summaries (conversation_id, through, content, tokens, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			in.row, r.Summary.Through, db.Text(r.Summary.Content), r.Summary.Tokens, db.Millis(r.Summary.At))
	}
	return err
}

func (in *restoring) insertMessage(ctx context.Context, tx db.Tx, m conversation.Message, files map[int]*blobs.Draft) error {
	m.Images, m.Files = slices.Clone(m.Images), slices.Clone(m.Files)
	for n, draft := range files {
		blob, err := draft.Add(ctx, tx, db.Millis(m.At))
		if err != nil {
			return err
		}
		row := rows.File{N: n, Blob: sql.NullInt64{Int64: blob, Valid: true}, Size: draft.Size()}
		id := new(int64)
		if n < len(m.Images) {
			row.Name, row.MediaType, id = m.Images[n].Name, m.Images[n].MediaType, &m.Images[n].ID
			m.Images[n].Data = nil
		} else {
			file := &m.Files[n-len(m.Images)]
			row.Name, row.MediaType, id = file.Name, file.MediaType, &file.ID
			file.Data = nil
		}
		if *id, err = row.Insert(ctx, tx, in.row, db.Millis(m.At)); err != nil {
			return err
		}
	}
	_, err := conversation.InsertMessage(ctx, tx, in.row, m)
	return err
}

func (in *restoring) insertRun(ctx context.Context, tx db.Tx, run runs.Record) error {
	sender, err := db.JSONOrNull(run.Asked, run.Asked == conversation.Sender{})
	if err != nil {
		return err
	}
	called, err := steps.Encode(run.Steps, run.Model, run.StartedAt)
	if err != nil {
		return err
	}
	warnings, err := db.JSONOrNull(run.Warnings, len(run.Warnings) == 0)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO imported_runs (conversation_id, id, kind, status, model, rounds, prompt_tokens, cached_tokens, completion_tokens, error, started_at, ended_at,
			sender, messages, steps, finish_reason, new_conversation, instructions, agent, warnings, cost)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		in.row, run.ID, run.Kind, run.Status, db.Text(run.Model), run.Rounds, run.Prompt, run.Cached, run.Completion, db.Text(run.Error),
		db.Millis(run.StartedAt), db.Millis(run.EndedAt), sender, run.Messages, db.Nullable(string(called)), db.Nullable(db.Text(string(run.FinishReason))),
		run.NewConversation, db.Nullable(db.Text(run.Instructions)), db.Nullable(db.Text(run.Agent)), warnings, run.Cost)
	return err
}

// reserveRuns stores a settled inbound with the id ?1 in the session of the conversation ?2, if
// the ids of the inbox have not come so far.
const reserveRuns = `
	INSERT INTO inbox (id, session_id, channel, source_id, address, text, sent_at, run_id, withdrawn)
	SELECT CAST(?1 AS BIGINT), session_id, 'import', 'import/' || CAST(CAST(?1 AS BIGINT) AS TEXT), '', '', 0, 0, 1 FROM conversations
	WHERE id = ?2 AND CAST(?1 AS BIGINT) > (SELECT coalesce(max(id), 0) FROM inbox)`

// finish shows the conversation, if it is whole.
func (in *restoring) finish(ctx context.Context, tx db.Tx) error {
	w := in.of.Window
	switch {
	case in.seq != in.of.Messages || in.seq == 0:
		return fmt.Errorf("%w: %d of %d messages are there", conversation.ErrInvalid, in.seq, in.of.Messages)
	case w.Start < 0 || w.Start > in.seq+1 || w.Cut < 0 || w.Budget < 0 || w.Named < 0:
		return fmt.Errorf("%w: the window begins at message %d", conversation.ErrInvalid, w.Start)
	}
	if err := in.calls.End(); err != nil {
		return fmt.Errorf("%w: %w", conversation.ErrInvalid, err)
	}
	var lost int64
	err := tx.QueryRowContext(ctx, `
		SELECT count(*) FROM messages WHERE conversation_id = ?1 AND run_id > 0 AND run_id NOT IN (SELECT id FROM imported_runs WHERE conversation_id = ?1)`,
		in.row).Scan(&lost)
	if err == nil && lost > 0 {
		err = fmt.Errorf("%w: the runs of %d messages are missing", conversation.ErrInvalid, lost)
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE conversations SET messages = ?2, tokens = ?3, window_start = ?4, window_cut = ?5, window_budget = ?6, window_named = ?8, deleted = 0, staged = 0,
			active = CASE WHEN EXISTS (SELECT 1 FROM conversations o WHERE o.session_id = conversations.session_id AND o.active = 1) THEN 0 ELSE ?7 END
		WHERE id = ?1`, in.row, in.seq, in.tokens, w.Start, w.Cut, w.Budget, in.goesOn && in.of.Active, w.Named)
	if err == nil {
		err = in.open(ctx, tx, in.row)
	}
	if err != nil {
		return err
	}
	// A run of this database that the conversation gets later must not have the number of an
	// imported one: the next inbound follows on these.
	_, err = tx.ExecContext(ctx, db.Either(reserveRuns, `
		WITH added AS (`+reserveRuns+` RETURNING id)
		SELECT setval(pg_get_serial_sequence('inbox', 'id'), greatest(id, nextval(pg_get_serial_sequence('inbox', 'id')))) FROM added`), in.runs, in.row)
	return err
}
