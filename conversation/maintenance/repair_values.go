package maintenance

import (
	"context"
	"strings"

	"parley/conversation/internal/db"
)

// invalidValues lists invalid values with their replacements. Without the replacement, a session
// with such a value would get no more answers.
var invalidValues = []struct{ table, column, condition, value string }{
	{"messages", "parts", "NOT json_valid(parts)", "NULL"},
	{"messages", "files", "NOT json_valid(files)", "NULL"},
	{"messages", "tool_calls", "NOT json_valid(tool_calls)", "NULL"},
	{"messages", "sender", "NOT json_valid(sender)", "NULL"},
	{"messages", "metadata", "NOT json_valid(metadata)", "NULL"},
	{"messages", "internal", "role NOT IN ('user', 'assistant', 'tool', 'system')", "1"},
	{"messages", "role", "role NOT IN ('user', 'assistant', 'tool', 'system')", "'system'"},
	{"messages", "set_aside", "set_aside NOT IN ('', 'stopped')", "''"},
	{"messages", "state", "set_aside IS NOT NULL AND state <> 'replaced'", "'replaced'"},
	{"messages", "state", "state NOT IN ('', 'stopped', 'replaced', 'undone', 'left_out')", "''"},
	{"messages", "run_id", "run_id > 0 AND run_id NOT IN (SELECT id FROM runs)" + isNotImported, "0"},
	{"conversations", "state", "NOT json_valid(state)", "NULL"},
	{"conversations", "metadata", "NOT json_valid(metadata)", "NULL"},
	{"conversations", "active", "active = 1 AND deleted <> 0", "0"},
	{"sessions", "metadata", "NOT json_valid(metadata)", "NULL"},
	{"sessions", "carried", "NOT json_valid(carried)", "NULL"},
	{"inbox", "sender", "NOT json_valid(sender)", "NULL"},
	{"inbox", "attachments", "NOT json_valid(attachments)", "NULL"},
	{"inbox", "options", "NOT json_valid(options)", "NULL"},
	{"outbox", "sent", "NOT json_valid(sent)", "'[]'"},
	{"outbox", "actions", "NOT json_valid(actions)", "NULL"},
	{"outbox", "transcript", "NOT json_valid(transcript)", "NULL"},
	{"outbox", "pictures", "NOT json_valid(pictures)", "NULL"},
	{"outbox", "state", "state NOT IN ('due', 'sent', 'failed', 'kept')", "'failed'"},
	{"runs", "sender", "NOT json_valid(sender)", "NULL"},
	{"runs", "steps", "NOT json_valid(steps)", "NULL"},
	{"runs", "warnings", "NOT json_valid(warnings)", "NULL"},
	{"runs", "kind", "kind NOT IN ('agent', 'command')", "'command'"},
	{"runs", "status", "status NOT IN ('done', 'failed', 'stopped')", "'failed'"},
	{"imported_runs", "sender", "NOT json_valid(sender)", "NULL"},
	{"imported_runs", "steps", "NOT json_valid(steps)", "NULL"},
	{"imported_runs", "warnings", "NOT json_valid(warnings)", "NULL"},
	{"imported_runs", "kind", "kind NOT IN ('agent', 'command')", "'command'"},
	{"imported_runs", "status", "status NOT IN ('done', 'failed', 'stopped')", "'failed'"},
	{"approvals", "askers", "NOT json_valid(askers)", "'[]'"},
	{"approvals", "answers", "NOT json_valid(answers)", "'{}'"},
	{"approvals", "form", "form IS NOT NULL AND NOT json_valid(form)", "'{}'"},
	{"approvals", "state", "state NOT IN ('open', 'allowed', 'denied', 'expired', 'cancelled')", "'cancelled'"},
	{"group_talk", "sender", "NOT json_valid(sender)", "'{}'"},
}

// unusable lists rows that are deleted, since no other value can take the place of an invalid
// one. Without its journal, a run begins again.
var unusable = []struct{ table, condition string }{
	{"journals", brokenJournal},
	{"tool_lists", "NOT json_valid(tools)"},
	{"run_instructions", "NOT json_valid(list)"},
	{"background_steps", "NOT json_valid(step)"},
	{"branches", wrongBranch},
	{"branch_states", "NOT json_valid(state)"},
}

// brokenJournal is the condition that a journal can't be read, or lacks entries.
const brokenJournal = `NOT json_valid(took) OR (SELECT count(*) <> coalesce(max(n), 0) OR sum(NOT json_valid(entry)) > 0
	FROM journal_entries e WHERE e.run_id = journals.run_id)`

// mendValues replaces the invalid values and counts them.
func (r *repair) mendValues(ctx context.Context) error {
	for _, s := range invalidValues {
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
		if r.replaced += n; n > 0 && s.table == "conversations" && s.column == "state" {
			if err := r.countAll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreignKey is a column that names rows of another table.
type foreignKey struct {
	table, column, parent, key string
	clears                     bool // null when its parent is deleted, as the schema says
}

// dropUnusable deletes rows with invalid values, and counts them.
func (r *repair) dropUnusable(ctx context.Context) error {
	for _, u := range unusable {
		result, err := r.tx.ExecContext(ctx, `DELETE FROM "`+u.table+`" WHERE `+u.condition)
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
		r.dropped[u.table] += n
	}
	return nil
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
			result, err := r.tx.ExecContext(ctx, verb+` WHERE "`+f.column+`" IS NOT NULL AND "`+f.column+`" NOT IN (SELECT "`+f.key+`" FROM "`+f.parent+`")`)
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
		`DELETE FROM file_pages`,
		`INSERT OR REPLACE INTO unread_files (file_id) SELECT id FROM files WHERE message_id IS NOT NULL AND blob_id IS NOT NULL`,
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
