package maintenance

import (
	"context"
	"slices"
	"strings"

	"parley/conversation/internal/db"
)

// rule is a condition on the gateway's tables beyond SQLite's own checks. Its
// query returns a sentence for each violation. Apart from keys and titles, these
// sentences contain no text that people have written.
type rule struct {
	kind   string   // what the rows of query show, in words for "N more …"
	tables []string // tables that must be readable as a whole
	lost   bool     // see Finding.Lost
	query  string
}

const (
	namedConversation = `s.key || ', conversation ' || c.uuid || CASE c.title WHEN '' THEN '' ELSE ' ("' || c.title || '")' END`
	ofSession         = ` JOIN sessions s ON s.id = c.session_id `
	whenWritten       = `strftime('%Y-%m-%d %H:%M', m.created_at / 1000, 'unixepoch', 'localtime')`
)

var rules = slices.Concat(rowRules,
	searchRules("messages_fts", "the search index", "The search index lacks", "The search index has", "it", "not"),
	searchRules("messages_ranks", "the ranks of the search index", "The ranks of the search index lack", "The ranks of the search index have", "them", "hardly"))

var rowRules = []rule{
	{"conversations lack messages", []string{"sessions", "conversations", "messages"}, true, `
		SELECT ` + namedConversation + ` || ': it should have ' || c.messages || ' messages, counted without a gap, and has '
			|| (SELECT count(*) || CASE WHEN count(*) = 0 THEN '' ELSE ', numbered ' || min(seq) || ' to ' || max(seq) END
				FROM messages m WHERE m.conversation_id = c.id) || '.'
		FROM conversations c` + ofSession + `WHERE c.deleted = 0
			AND (c.messages, c.messages, c.messages > 0) IS NOT (SELECT count(*), coalesce(max(seq), 0), coalesce(min(seq) = 1, 0)
				FROM messages m WHERE m.conversation_id = c.id)`},
	{"sessions have several active conversations", []string{"sessions", "conversations"}, false, `
		SELECT s.key || ': ' || count(*) || ' conversations are active, and only one may be.'
		FROM conversations c NOT INDEXED` + ofSession + `WHERE c.active = 1 GROUP BY c.session_id HAVING count(*) > 1`},
	{"deleted conversations are active", []string{"sessions", "conversations"}, false, `
		SELECT ` + namedConversation + ` || ': it is deleted, and active all the same.'
		FROM conversations c` + ofSession + `WHERE c.deleted <> 0 AND c.active = 1`},
	{"messages belong to no run", []string{"sessions", "conversations", "messages", "runs", "imported_runs"}, false, `
		SELECT ` + namedConversation + ` || ': message ' || m.seq || ' belongs to run ' || m.run_id || ', which does not exist.'
		FROM messages m JOIN conversations c ON c.id = m.conversation_id` + ofSession + `
		WHERE c.deleted = 0 AND m.run_id > 0 AND m.run_id NOT IN (SELECT id FROM runs)
			AND (m.conversation_id, m.run_id) NOT IN (SELECT conversation_id, id FROM imported_runs)`},
	{"messages are of an unknown kind", []string{"sessions", "conversations", "messages"}, true, `
		SELECT ` + namedConversation + ` || ': message ' || m.seq || ', written ' || ` + whenWritten + ` || ', is of an unknown kind.'
		FROM messages m JOIN conversations c ON c.id = m.conversation_id` + ofSession + `
		WHERE m.role NOT IN ('user', 'assistant', 'tool', 'system') OR m.state NOT IN ('', 'stopped', 'replaced', 'undone', 'left_out')`},
	{"messages are set aside wrongly", []string{"sessions", "conversations", "messages"}, true, `
		SELECT ` + namedConversation + ` || ': message ' || m.seq || ', written ' || ` + whenWritten + ` || ', is set aside in an unknown way.'
		FROM messages m JOIN conversations c ON c.id = m.conversation_id` + ofSession + `
		WHERE m.set_aside IS NOT NULL AND (m.state <> 'replaced' OR m.set_aside NOT IN ('', 'stopped'))`},
	{"branches are broken", []string{"sessions", "conversations", "messages", "branches", "branch_states"}, false, `
		SELECT ` + namedConversation + ` || ': its branches contradict its messages: ` + "`gateway repair`" + ` mends them.'
		FROM conversations c` + ofSession + `WHERE c.deleted = 0 AND (` + wrongTip + `
			OR EXISTS (SELECT 1 FROM branches b WHERE b.conversation_id = c.id AND ` + wrongBranch + `)
			OR EXISTS (SELECT 1 FROM branch_states b WHERE b.conversation_id = c.id AND NOT json_valid(b.state)))`},
	{"messages can't be understood", []string{"sessions", "conversations", "messages"}, true, `
		SELECT ` + namedConversation + ` || ': of message ' || m.seq || ', written ' || ` + whenWritten + ` || ', the files, tool calls or sender can''t be understood.'
		FROM messages m JOIN conversations c ON c.id = m.conversation_id` + ofSession + `
		WHERE NOT (json_valid(coalesce(m.parts, '0')) AND json_valid(coalesce(m.tool_calls, '0'))
			AND json_valid(coalesce(m.files, '0')) AND json_valid(coalesce(m.sender, '0')) AND json_valid(coalesce(m.metadata, '0')))`},
	{"conversations can't be understood", []string{"sessions", "conversations"}, true, `
		SELECT ` + namedConversation + ` || ': its state or metadata can''t be understood.'
		FROM conversations c` + ofSession + `WHERE NOT (json_valid(coalesce(c.state, '0')) AND json_valid(coalesce(c.metadata, '0')))`},
	{"messages in the inbox can't be understood", []string{"sessions", "inbox"}, true, `
		SELECT s.key || ': a message that came by ' || i.channel || ' can''t be understood.'
		FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE NOT (json_valid(coalesce(i.sender, '0')) AND json_valid(coalesce(i.attachments, '0')) AND json_valid(coalesce(i.options, '0')))`},
	{"sessions can't be understood", []string{"sessions"}, true, `
		SELECT s.key || ': its metadata or instructions can''t be understood.'
		FROM sessions s WHERE NOT (json_valid(coalesce(s.metadata, '0')) AND json_valid(coalesce(s.carried, '0')))`},
	{"imported runs are of an unknown kind", []string{"sessions", "conversations", "imported_runs"}, false, `
		SELECT ` + namedConversation + ` || ': what was done in the imported run ' || r.id || ' can''t be understood.'
		FROM imported_runs r JOIN conversations c ON c.id = r.conversation_id` + ofSession + `
		WHERE r.kind NOT IN ('agent', 'command') OR r.status NOT IN ('done', 'failed', 'stopped')
			OR NOT (json_valid(coalesce(r.steps, '0')) AND json_valid(coalesce(r.sender, '0')))`},
	{"runs can't go on", []string{"sessions", "journals", "journal_entries"}, true, `
		SELECT s.key || ': the journal of run ' || journals.run_id || ', which is under way, can''t be understood.'
		FROM journals JOIN sessions s ON s.id = journals.session_id WHERE ` + brokenJournal},
	{"questions about tool calls can't be understood", []string{"sessions", "approvals"}, false, `
		SELECT s.key || ': question ' || a.id || ', about a tool call, can''t be understood.'
		FROM approvals a JOIN sessions s ON s.id = a.session_id
		WHERE NOT (json_valid(a.askers) AND json_valid(a.answers) AND json_valid(coalesce(a.form, '{}'))) OR a.state NOT IN ('open', 'allowed', 'denied', 'expired', 'cancelled')`},
	{"lists of tools can't be understood", []string{"tool_lists"}, false, `
		SELECT 'The tools that the server ' || server || ' has listed can''t be understood: it is asked again.'
		FROM tool_lists WHERE NOT json_valid(tools)`},
	{"instructions can't be understood", []string{"sessions", "conversations", "run_instructions"}, true, `
		SELECT ` + namedConversation + ` || ': instructions that were in force in its runs can''t be understood.'
		FROM run_instructions i JOIN conversations c ON c.id = i.conversation_id` + ofSession + `WHERE NOT json_valid(i.list)`},
	{"model calls can't be understood", []string{"sessions", "conversations", "background_steps"}, false, `
		SELECT ` + namedConversation + ` || ': a model call behind its run ' || b.run_id || ' can''t be understood.'
		FROM background_steps b JOIN conversations c ON c.id = b.conversation_id` + ofSession + `WHERE NOT json_valid(b.step)`},
	{"group talk can't be understood", []string{"group_talk"}, true, `
		SELECT g.session || ': who said something in the group talk can''t be understood.' FROM group_talk g WHERE NOT json_valid(g.sender)`},
	{"replies are of an unknown state", []string{"sessions", "outbox"}, true, `
		SELECT s.key || ': reply ' || o.id || ' is neither due nor sent, failed or kept.'
		FROM outbox o JOIN sessions s ON s.id = o.session_id WHERE o.state NOT IN ('due', 'sent', 'failed', 'kept')`},
	{"replies can't be understood", []string{"sessions", "outbox"}, true, `
		SELECT s.key || ': reply ' || o.id || ' can''t be understood.'
		FROM outbox o JOIN sessions s ON s.id = o.session_id
		WHERE NOT (json_valid(o.sent) AND json_valid(coalesce(o.actions, '0')) AND json_valid(coalesce(o.transcript, '0')) AND json_valid(coalesce(o.pictures, '0')))`},
	{"runs are of an unknown kind", []string{"sessions", "runs"}, false, `
		SELECT s.key || ': what was done in run ' || r.id || ' can''t be understood.'
		FROM runs r JOIN sessions s ON s.id = r.session_id
		WHERE r.kind NOT IN ('agent', 'command') OR r.status NOT IN ('done', 'failed', 'stopped')
			OR NOT (json_valid(coalesce(r.steps, '0')) AND json_valid(coalesce(r.sender, '0')))`},
	{"vectors are too many", []string{"messages", "vectors", "vector_signs"}, false, `
		SELECT 'There are ' || count(*) || ' vectors of messages that do not exist: ` + "`gateway repair`" + ` deletes them.'
		FROM (SELECT id FROM vectors UNION SELECT id FROM vector_signs) v WHERE NOT EXISTS (
			SELECT 1 FROM messages m WHERE m.conversation_id = v.id >> 24 AND m.seq = v.id & 0xFFFFFF) HAVING count(*) > 0`},
	{"vectors are incomplete", []string{"vectors", "vector_signs"}, false, `
		SELECT 'Of ' || count(*) || ' vectors a part is missing, so that the messages are found by their words alone: ` + "`gateway repair`" + ` has them made anew.'
		FROM (SELECT id FROM vectors UNION SELECT id FROM vector_signs)
		WHERE id NOT IN (SELECT id FROM vectors) OR id NOT IN (SELECT id FROM vector_signs) HAVING count(*) > 0`},
}

const (
	// wrongTip is the condition on a row c of conversations that its chosen branch can't end
	// where it should: there is no such message, or it is set aside.
	wrongTip = `(c.tip < 0 OR c.tip > c.messages OR EXISTS (
		SELECT 1 FROM messages m WHERE m.conversation_id = c.id AND m.seq = iif(c.tip > 0, c.tip, c.messages) AND m.set_aside IS NOT NULL))`

	// wrongBranch is the condition on a row of branches that there can't be such a branch.
	wrongBranch = `(parent < 0 OR parent >= seq)`
)

// searchRules returns the rules of a table of the search index: it has each message up to
// its cursor, and no other. The last word says how a message is found that it lacks.
func searchRules(table, name, lacks, has, them, lost string) []rule {
	tables := []string{"messages", table + "_docsize"}
	again := "`gateway repair` makes " + them + " anew.'"
	return []rule{
		{"messages are missing in " + name, tables, false, `
			SELECT '` + lacks + ` ' || count(*) || ' messages, so that they are ` + lost + ` found: ` + again + `
			FROM messages m WHERE (m.content <> '' OR coalesce(m.tool_calls, '') <> '')
				AND m.id <= (SELECT CAST(value AS INTEGER) FROM cursors WHERE name = '` + table + `')
				AND m.conversation_id << 24 | m.seq NOT IN (SELECT id FROM ` + table + `_docsize) HAVING count(*) > 0`},
		{"pages of files and " + name + " differ", []string{"file_pages", table + "_docsize"}, false, `
			SELECT '` + has + ` other pages of files than there are: ` + again + `
			WHERE EXISTS (SELECT 1 FROM ` + table + `_docsize WHERE id & 0x800000 AND id NOT IN (SELECT id FROM file_pages))
				OR EXISTS (SELECT 1 FROM file_pages WHERE id NOT IN (SELECT id FROM ` + table + `_docsize))`},
		{"entries of " + name + " are too many", tables, false, `
			SELECT '` + has + ` ' || count(*) || ' entries of messages that do not exist: ` + again + `
			FROM ` + table + `_docsize d WHERE d.id & 0x800000 = 0 AND NOT EXISTS (
				SELECT 1 FROM messages m WHERE m.conversation_id = d.id >> 24 AND m.seq = d.id & 0xFFFFFF) HAVING count(*) > 0`},
	}
}

// dangling are rows that refer to others that do not exist, by table and the
// table they refer to.
const dangling = `
	SELECT 'The table ' || "table" || ' has ' || count(*) || ' rows that refer to rows of ' || parent || ' which do not exist.'
	FROM pragma_foreign_key_check GROUP BY "table", parent`

// rules checks what is readable. A schema that is older than this gateway may
// lack what a rule asks for.
func (v *verification) rules(ctx context.Context, q db.Querier) error {
	for _, r := range slices.Concat(rules, []rule{{kind: "references are broken", lost: true, query: dangling}}) {
		if v.anyHit(r.tables) || r.tables == nil && len(v.hit) > 0 {
			continue
		}
		texts, err := firstColumn(ctx, q, r.query)
		if err != nil && !isDamage(err) && !isOlder(err) {
			return explain(v.path, err)
		}
		if isDamage(err) && len(v.Findings) == 0 {
			v.find(true, "SQLite can't read all of the file.")
		}
		v.several(r.lost, r.kind, texts)
	}
	return nil
}

func (v *verification) anyHit(tables []string) bool {
	for _, name := range tables {
		if v.hit[name] {
			return true
		}
	}
	return false
}

// isOlder reports whether a query asked for a column or a table of a newer
// schema.
func isOlder(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "no such column") || strings.Contains(err.Error(), "no such table"))
}
