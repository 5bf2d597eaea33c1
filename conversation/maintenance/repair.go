package maintenance

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/sqlitefile"
)

// RepairOptions change how Repair works. The zero value is ready to use.
type RepairOptions struct {
	Force    bool // replace the target if it exists
	Progress Progress
}

// Repaired says what Repair has saved.
type Repaired struct {
	Contents
	Losses []Finding // what could not be read
	Log    bool      // the log beside the file belongs to another one, and was left out
}

// Repair reads all that can be read of a database that no process has open, and
// makes a new one of it in the file target. What is lost of a conversation is
// marked there by an internal message in each place, so that the rest keeps its
// numbers. The search index is rebuilt. The old database is not changed.
func Repair(ctx context.Context, database, target string, o RepairOptions) (r Repaired, err error) {
	held, err := db.Exclude(database)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if target, err = checkTarget(held.Path, target, o.Force); err != nil {
		return r, err
	}
	var foreign *db.ForeignLogError
	if err := held.CheckLog(ctx); errors.As(err, &foreign) && foreign.Problem == "" {
		r.Log = true
	} else if err != nil && foreign == nil {
		return r, err
	}
	pages, err := sqlitefile.OpenPages(held.Path, !r.Log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	d, err := newDraft(target)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.discard()) }()
	work := &repair{salvage: salvage{pages: pages, progress: o.Progress}, dropped: map[string]int64{}}
	if err := work.build(ctx, d.path); err != nil {
		return r, explain(d.path, err)
	}
	r.Losses = work.losses()
	if err := finish(ctx, d.path, o.Progress); err != nil {
		return r, explain(d.path, err)
	}
	lost, err := embed(ctx, d.path, held.Path, nil, o.Progress)
	if err != nil {
		return r, explain(d.path, err)
	}
	if err := detach(ctx, d.path); err != nil {
		return r, explain(d.path, err)
	}
	if r.Contents, err = checkCopy(ctx, d.path, o.Progress); err != nil {
		return r, err
	}
	r.LostFiles = lost
	v := verification{path: d.path, withLog: true, progress: o.Progress}
	if err := v.run(ctx); err != nil {
		return r, err
	}
	r.Losses = append(r.Losses, v.Findings...)
	return r, d.publish(target, o.Force)
}

// finish brings the new database up to date, and makes what follows from its
// messages, such as the search index.
func finish(ctx context.Context, path string, progress Progress) (err error) {
	s, err := conversation.Open(ctx, conversation.Config{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return indexAll(ctx, s.DB(), func(done, total int64) { progress.tell(Indexing, done, total) })
}

// repair is one Repair.
type repair struct {
	salvage
	tx         *sql.Tx
	statements map[string]*sql.Stmt // by table and number of values
	dropped    map[string]int64     // rows that can't stand beside the others, by table
	lost       []Loss
	senseless  int64 // values that were replaced
	unnamed    int64 // sessions that got a name
}

// build makes the new database of what can be read.
func (r *repair) build(ctx context.Context, path string) (err error) {
	if r.objects, _, err = readSchema(r.pages); err != nil {
		return err
	}
	if !r.isGateways() {
		return errors.New("no table of a gateway can be found in the file: restore a copy")
	}
	if err := r.readVersion(); err != nil {
		return err
	}
	if err := db.MakeSchema(ctx, path, r.version); err != nil {
		return err
	}
	db, err := sqlite.Open(path, sqlite.Options{Journal: sqlite.NoRollback, NoSync: true, CacheKiB: 20_000})
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.tx, err = db.BeginTx(ctx, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(r.tx.Rollback())) }()
	here, err := describeAll(ctx, r.tx)
	if err != nil {
		return err
	}
	r.statements = map[string]*sql.Stmt{}
	r.row = func(t table, _ int64, values []any) error { return r.insert(ctx, here, t, values) }
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := r.mend(ctx); err != nil {
		return err
	}
	return r.tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// describeAll returns the columns of the new database, by table.
func describeAll(ctx context.Context, q db.Querier) (columns map[string][]string, err error) {
	names, err := firstColumn(ctx, q, `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'`)
	if err != nil {
		return nil, err
	}
	columns = map[string][]string{}
	for _, name := range names {
		if columns[name], err = firstColumn(ctx, q, `SELECT name FROM pragma_table_info(?)`, name); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// Tables whose rows are not copied: they follow from the others, or are those
// of the new database.
var notCopied = []string{"goose_db_version", "exchange_counts", "wal_epoch"}

// insert adds a row that was read. One that the new database refuses, since it
// contradicts another, is counted.
func (r *repair) insert(ctx context.Context, here map[string][]string, t table, values []any) error {
	if slices.Contains(notCopied, t.name) || here[t.name] == nil {
		return nil
	}
	var names []string
	var kept []any
	for i, value := range values {
		if slices.Contains(here[t.name], t.columns[i].name) {
			names, kept = append(names, t.columns[i].name), append(kept, value)
		}
	}
	key := fmt.Sprint(t.name, len(names))
	statement := r.statements[key]
	if statement == nil {
		verb := "INSERT OR IGNORE"
		if t.name == "cursors" { // some of which a new database has
			verb = "INSERT OR REPLACE"
		}
		var err error
		statement, err = r.tx.PrepareContext(ctx, verb+` INTO "`+t.name+`" ("`+strings.Join(names, `", "`)+`") VALUES (?`+strings.Repeat(", ?", len(names)-1)+`)`)
		if err != nil {
			return err
		}
		r.statements[key] = statement
	}
	result, err := statement.ExecContext(context.Background(), kept...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if n == 0 {
		r.dropped[t.name]++
	}
	return err
}

// mend makes a whole of what was saved.
func (r *repair) mend(ctx context.Context) error {
	r.lost = r.tally.losses()
	for _, step := range []func(context.Context) error{r.mendValues, r.mendSessions, r.mendConversations, r.mendMessages, r.mendReferences, r.mendCursors} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// exec executes statements that have parameters only if there is one of them.
func (r *repair) exec(ctx context.Context, query string, args ...any) error {
	_, err := r.tx.ExecContext(ctx, query, args...)
	return err
}

// isNotImported leaves out the messages of imported runs, which older schemas have not.
const isNotImported = ` AND (conversation_id, run_id) NOT IN (SELECT conversation_id, id FROM imported_runs)`

// senseless lists values that the gateway can't understand, with their
// replacements: one of them would keep its session from being answered.
var senseless = []struct{ table, column, condition, value string }{
	{"messages", "parts", "NOT json_valid(parts)", "NULL"},
	{"messages", "files", "NOT json_valid(files)", "NULL"},
	{"messages", "tool_calls", "NOT json_valid(tool_calls)", "NULL"},
	{"messages", "sender", "NOT json_valid(sender)", "NULL"},
	{"messages", "metadata", "NOT json_valid(metadata)", "NULL"},
	{"messages", "internal", "role NOT IN ('user', 'assistant', 'tool', 'system')", "1"},
	{"messages", "role", "role NOT IN ('user', 'assistant', 'tool', 'system')", "'system'"},
	{"messages", "state", "state NOT IN ('', 'stopped', 'replaced', 'undone')", "''"},
	{"messages", "run_id", "run_id > 0 AND run_id NOT IN (SELECT id FROM runs)" + isNotImported, "0"},
	{"conversations", "state", "NOT json_valid(state)", "NULL"},
	{"conversations", "active", "active = 1 AND deleted <> 0", "0"},
	{"sessions", "metadata", "NOT json_valid(metadata)", "NULL"},
	{"inbox", "sender", "NOT json_valid(sender)", "NULL"},
	{"inbox", "attachments", "NOT json_valid(attachments)", "NULL"},
	{"outbox", "sent", "NOT json_valid(sent)", "'[]'"},
	{"outbox", "actions", "NOT json_valid(actions)", "NULL"},
	{"outbox", "transcript", "NOT json_valid(transcript)", "NULL"},
	{"outbox", "state", "state NOT IN ('due', 'sent', 'failed', 'kept')", "'failed'"},
	{"runs", "sender", "NOT json_valid(sender)", "NULL"},
	{"runs", "steps", "NOT json_valid(steps)", "NULL"},
	{"runs", "kind", "kind NOT IN ('agent', 'command')", "'command'"},
	{"runs", "status", "status NOT IN ('done', 'failed', 'stopped')", "'failed'"},
}

// mendValues replaces what makes no sense, and counts it.
func (r *repair) mendValues(ctx context.Context) error {
	for _, s := range senseless {
		update := `UPDATE "` + s.table + `" SET "` + s.column + `" = ` + s.value + ` WHERE `
		result, err := r.tx.ExecContext(ctx, update+s.condition)
		if older := strings.TrimSuffix(s.condition, isNotImported); isOlder(err) && older != s.condition {
			result, err = r.tx.ExecContext(ctx, update+older)
		}
		if isOlder(err) {
			continue
		}
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if r.senseless += n; n > 0 && s.table == "conversations" && s.column == "state" {
			if err := r.countAll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// countAll creates a state for all conversations that lost theirs.
func (r *repair) countAll(ctx context.Context) error {
	ids, err := firstColumn(ctx, r.tx, `SELECT id FROM conversations WHERE state IS NULL AND messages > 0`)
	for _, text := range ids {
		id, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			err = r.count(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// mendSessions adds the sessions that others refer to and whose rows are lost:
// the index knows their keys.
func (r *repair) mendSessions(ctx context.Context) error {
	missing, err := firstColumn(ctx, r.tx, `
		SELECT session_id FROM (SELECT session_id FROM conversations UNION SELECT session_id FROM runs
			UNION SELECT session_id FROM inbox UNION SELECT session_id FROM outbox)
		WHERE session_id NOT IN (SELECT id FROM sessions)`)
	if err != nil {
		return err
	}
	wanted := map[int64]bool{}
	for _, text := range missing {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		wanted[id] = true
	}
	for id, s := range r.tally.sessions {
		wanted[id] = wanted[id] || !s.row && s.key != ""
	}
	for id, c := range r.tally.conversations {
		if !c.row && len(c.found) > 0 {
			if c.session == 0 {
				if err := r.findSession(ctx, id, c); err != nil {
					return err
				}
			}
			wanted[c.session] = wanted[c.session] || r.tally.sessions[c.session] == nil
		}
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[id] {
			if err := r.addSession(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// findSession finds the session of a conversation through its runs.
func (r *repair) findSession(ctx context.Context, id int64, c *conversationTally) error {
	err := r.tx.QueryRowContext(ctx, `
		SELECT r.session_id FROM messages m JOIN runs r ON r.id = m.run_id AND r.conversation_id = m.conversation_id
		WHERE m.conversation_id = ? AND m.run_id > 0 LIMIT 1`, id).Scan(&c.session)
	if errors.Is(err, sql.ErrNoRows) {
		c.session = unknownSession
		return nil
	}
	return err
}

// unknownSession is the id of a session made for what belongs to none that is
// known. No session has it: SQLite gives ids from 1 on.
const unknownSession = math.MaxInt32

func (r *repair) addSession(ctx context.Context, id int64) error {
	s := r.tally.session(id)
	if s.key == "" {
		s.key = conversation.Key(fmt.Sprintf("cli:recovered-%d", id))
		r.unnamed++
	}
	channel, _, _ := strings.Cut(string(s.key), ":")
	return r.exec(ctx, `
		INSERT OR IGNORE INTO sessions (id, key, channel, created_at)
		VALUES (?1, ?2, ?3, coalesce((SELECT min(created_at) FROM conversations WHERE session_id = ?1), (SELECT min(started_at) FROM runs WHERE session_id = ?1), ?4))`,
		id, string(s.key), channel, time.Now().UnixMilli())
}

// mendConversations adds conversations whose rows are lost, as far as their messages
// or an index show them. One of them is active only if its session has no other active
// conversation.
func (r *repair) mendConversations(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(r.tally.conversations)) {
		c := r.tally.conversations[id]
		if c.row || c.deleted != 0 || len(c.found) == 0 && c.session == 0 {
			continue
		}
		if c.uuid == "" {
			fresh, err := uuid.NewV7()
			if err != nil {
				return err
			}
			c.uuid = fresh.String()
		}
		session := cmp.Or(c.session, unknownSession)
		if err := r.addSession(ctx, session); err != nil {
			return err
		}
		_, last := c.bounds()
		err := r.exec(ctx, `
			INSERT OR IGNORE INTO conversations (id, uuid, session_id, active, messages, tokens, created_at, updated_at)
			SELECT ?1, ?2, ?3, ?4 AND NOT EXISTS (SELECT 1 FROM conversations WHERE session_id = ?3 AND active = 1), ?5,
				coalesce(sum(tokens), 0), coalesce(min(created_at), ?6), coalesce(max(created_at), ?6)
			FROM messages WHERE conversation_id = ?1`, id, c.uuid, session, c.active, max(last, c.messages), time.Now().UnixMilli())
		if err != nil {
			return err
		}
		if err := r.count(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// bounds returns the first and the last message that can be read.
func (c *conversationTally) bounds() (first, last int64) {
	for _, s := range c.found {
		if first == 0 || s.first < first {
			first = s.first
		}
		last = max(last, s.last)
	}
	return first, last
}

// count stores the state of a conversation with the number of its turns.
func (r *repair) count(ctx context.Context, id int64) error {
	if r.version < 4 { // a later migration does it
		return nil
	}
	return r.exec(ctx, `
		UPDATE conversations SET state = (
			SELECT json_object('turns', coalesce(sum(role = 'user' AND before IS NOT 'user'), 0),
				'asked', json(CASE WHEN max(CASE WHEN behind IS NULL THEN role = 'user' END) THEN 'true' ELSE 'false' END))
			FROM (SELECT role, lag(role) OVER (ORDER BY seq) AS before, lead(role) OVER (ORDER BY seq) AS behind
				FROM messages WHERE conversation_id = ?1 AND internal = 0 AND state NOT IN ('replaced', 'undone')))
		WHERE id = ?1`, id)
}

// lostText is the text of the message that replaces a lost one. It is internal: no
// model is shown it, and neither is the chat.
const lostText = "This message could not be read when the database was repaired."

// mendMessages puts a mark in each place where a message is lost, and takes tool
// calls and results out of the talk of which the other half is lost: a model's
// server refuses them.
func (r *repair) mendMessages(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(r.tally.conversations)) {
		c := r.tally.conversations[id]
		missing := c.missing(Loss{})
		if len(missing) == 0 || c.deleted != 0 {
			continue
		}
		for _, l := range missing {
			for seq := l.First; seq <= l.Last; seq++ {
				if err := r.exec(ctx, `
					INSERT OR IGNORE INTO messages (conversation_id, seq, run_id, role, content, internal, tokens, created_at)
					VALUES (?, ?, 0, 'system', ?, 1, 0, ?)`, id, seq, lostText, cmp.Or(l.After, l.Before, time.Now().UnixMilli())); err != nil {
					return err
				}
			}
		}
		if err := r.mendCalls(ctx, id); err != nil {
			return err
		}
		if err := r.count(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// mendCalls makes internal what a call or a result stands alone in.
func (r *repair) mendCalls(ctx context.Context, conversation int64) error {
	rows, err := r.tx.QueryContext(ctx, `
		SELECT seq, role, coalesce(tool_calls, ''), coalesce(tool_call_id, '') FROM messages
		WHERE conversation_id = ? AND state NOT IN ('replaced', 'undone') AND (internal = 0 OR run_id = 0 AND role = 'system') ORDER BY seq`, conversation)
	if err != nil {
		return err
	}
	defer rows.Close()
	var alone []int64
	var group []int64         // the message with the calls, and the results so far
	open := map[string]bool{} // calls without a result so far
	end := func() {
		if len(open) > 0 {
			alone = append(alone, group...)
		}
		group, open = nil, map[string]bool{}
	}
	for rows.Next() {
		var seq int64
		var role, calls, answers string
		if err := rows.Scan(&seq, &role, &calls, &answers); err != nil {
			return err
		}
		switch {
		case role == "tool" && open[answers]:
			group = append(group, seq)
			delete(open, answers)
		case role == "tool":
			alone = append(alone, seq)
		default:
			end()
			for _, id := range callIDs(calls) {
				group, open[id] = []int64{seq}, true
			}
		}
	}
	end()
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, seq := range alone {
		if err := r.exec(ctx, `UPDATE messages SET internal = 1 WHERE conversation_id = ? AND seq = ?`, conversation, seq); err != nil {
			return err
		}
	}
	return nil
}

// callIDs returns the ids of the tool calls that a message holds.
func callIDs(text string) (ids []string) {
	var calls []struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(text), &calls) != nil {
		return nil
	}
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}

// foreignKey is a column that names rows of another table.
type foreignKey struct {
	table, column, parent, key string
	clears                     bool // null when its parent is deleted, as the schema says
}

// mendReferences deletes rows whose parent is lost, and counts them.
func (r *repair) mendReferences(ctx context.Context) error {
	list, err := foreignKeys(ctx, r.tx)
	if err != nil {
		return err
	}
	for changed := true; changed; { // what refers to a deleted row goes too
		changed = false
		for _, f := range list {
			verb := `DELETE FROM "` + f.table + `"`
			if f.clears {
				verb = `UPDATE "` + f.table + `" SET "` + f.column + `" = NULL`
			}
			result, err := r.tx.ExecContext(ctx, verb+` WHERE "`+f.column+`" NOT IN (SELECT "`+f.key+`" FROM "`+f.parent+`")`)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			if changed = changed || n > 0; !f.clears {
				r.dropped[f.table] += n
			}
		}
	}
	return nil
}

// foreignKeys returns the foreign keys of the new database.
func foreignKeys(ctx context.Context, q db.Querier) (list []foreignKey, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT t.name, f."from", f."table", coalesce(f."to", 'id'), f.on_delete = 'SET NULL'
		FROM pragma_table_list t JOIN pragma_foreign_key_list(t.name) f WHERE t.schema = 'main' AND t.type = 'table'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f foreignKey
		if err := rows.Scan(&f.table, &f.column, &f.parent, &f.key, &f.clears); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, rows.Err()
}

// mendCursors makes the store rebuild the search index and lost vectors, and keeps numbers from being given
// twice where the newest rows are lost: a run has the number of its first inbound,
// and the sums know up to which reply they count.
func (r *repair) mendCursors(ctx context.Context) error {
	for _, statement := range []string{
		`UPDATE cursors SET value = 0 WHERE name IN ('messages_fts', 'messages_ranks')`,
		`DELETE FROM vectors WHERE id NOT IN (SELECT id FROM vector_signs)
			OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = vectors.id >> 24 AND m.seq = vectors.id & 0xFFFFFF)`,
		`DELETE FROM vector_signs WHERE id NOT IN (SELECT id FROM vectors)`,
		`UPDATE embeddings SET done = 0, owner = '', claimed_until = 0`, // what has no vector any more gets a new one
		`INSERT INTO inbox (id, session_id, channel, source_id, address, text, sent_at, run_id)
			SELECT newest, (SELECT min(id) FROM sessions), 'repair', 'repair/' || newest, '', '', 0, 0
			FROM (SELECT max((SELECT coalesce(max(id), 0) FROM runs), (SELECT coalesce(max(run_id), 0) FROM messages),
				(SELECT coalesce(max(run_id), 0) FROM outbox), (SELECT coalesce(max(run_id), 0) FROM inbox)) AS newest)
			WHERE newest > (SELECT coalesce(max(id), 0) FROM inbox) AND EXISTS (SELECT 1 FROM sessions)`,
		`UPDATE cursors SET value = (SELECT coalesce(max(id), 0) FROM outbox)
			WHERE name = 'run_totals' AND CAST(value AS INTEGER) > (SELECT coalesce(max(id), 0) FROM outbox)`,
		`DELETE FROM appends WHERE conversation_id NOT IN (SELECT id FROM conversations)`,
	} {
		if err := r.exec(ctx, statement); err != nil && !isOlder(err) {
			return err
		}
	}
	return nil
}

// losses returns what could not be read.
func (r *repair) losses() []Finding {
	v := verification{}
	v.damage(&r.salvage)
	list := slices.DeleteFunc(v.Findings, func(f Finding) bool { return !f.Lost })
	for _, table := range slices.Sorted(maps.Keys(r.dropped)) {
		if n := r.dropped[table]; n > 0 {
			list = append(list, Finding{Lost: true, Text: fmt.Sprintf("%s of the table %s contradicted others, or what they belong to is lost; they are left out.",
				counted(n, "row", "rows"), table)})
		}
	}
	if r.senseless > 0 {
		list = append(list, Finding{Lost: true, Text: counted(r.senseless, "value", "values") + " made no sense, such as a message's tool calls or a run that is lost; they are left out."})
	}
	if r.unnamed > 0 {
		list = append(list, Finding{Lost: true, Text: counted(r.unnamed, "session", "sessions") + " lost their names, and are now called cli:recovered-NUMBER."})
	}
	return list
}

// indexAll runs the chores of a database that no other process uses, so that it
// lets nobody go first. It reports to told how many messages are in the search index.
func indexAll(ctx context.Context, d *db.DB, told func(done, total int64)) error {
	var total int64
	if err := d.QueryRowContext(ctx, `SELECT count(*) FROM messages`).Scan(&total); err != nil {
		return db.Explain(err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var left int64
		done := false
		err := d.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			for range catchUpSteps {
				if done, err = d.StepChore(ctx, tx); done || err != nil {
					return err
				}
			}
			return tx.QueryRowContext(ctx, `SELECT count(*) FROM messages WHERE id > (
				SELECT min(CAST(value AS INTEGER)) FROM cursors WHERE name IN ('messages_fts', 'messages_ranks'))`).Scan(&left)
		})
		if err != nil || done {
			return err
		}
		told(total-left, total)
	}
}

const catchUpSteps = 50 // of indexAll in one transaction
