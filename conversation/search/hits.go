package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/filepages"
	"parley/conversation/internal/turns"
	"parley/conversation/internal/wordindex"
	"parley/conversation/metadata"
	"parley/markup"
)

// place is a row of the index with the id of its message. The row holds the message itself, or a page of one of its files.
type place struct{ row, message int64 }

// messageOf is the SQL expression for the id of the message that the row j.value of the index belongs to.
const messageOf = `CASE WHEN (j.value & 8388608) = 0
	THEN (SELECT id FROM messages WHERE conversation_id = (j.value >> 24) AND seq = (j.value & 16777215))
	ELSE (SELECT f.message_id FROM file_pages p JOIN files f ON f.id = p.file_id WHERE p.id = j.value) END`

// allowed returns the places of rows of the index, in the same order. It leaves out rows whose messages this search may not
// return, and rows on damaged pages of the database.
func (l *lookup) allowed(ctx context.Context, rowIDs []int64) ([]place, error) {
	return db.ReadableOf(rowIDs, func(rowIDs []int64) ([]place, error) { return l.readAllowed(ctx, rowIDs) })
}

func (l *lookup) readAllowed(ctx context.Context, rowIDs []int64) (places []place, err error) {
	wanted, err := l.query.Metadata.Parameter()
	if err != nil {
		return nil, err
	}
	rows, err := db.Short(ctx, l.conn, `
		SELECT j.value, messages.id
		FROM `+db.EachID("?1")+` j JOIN messages ON messages.id = `+messageOf+`
			JOIN conversations c ON c.id = conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.deleted = 0 AND (?2 = 1 OR `+turns.Visible+`) AND NOT (?3 = 1 AND role = 'tool')
			AND (?4 = '' OR tool_name IS DISTINCT FROM ?4 AND NOT EXISTS (
				SELECT 1 FROM `+db.Either(`json_each(CASE WHEN json_valid(tool_calls) THEN tool_calls ELSE '[]' END) t`,
		`json_array_elements(CAST(tool_calls AS json)) t(value)`)+` WHERE t.value ->> 'name' = ?4))
			AND `+metadata.Matches("?5", "messages.metadata", "c.metadata", "s.metadata")+`
		ORDER BY j.key`,
		db.IDs(rowIDs), !l.visible, l.query.WithoutTools, l.query.ExceptTool, wanted)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.row, &p.message); err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, rows.Err()
}

// searched returns what the search looks at in a message: its content and, unless the query has WithoutTools, its tool calls.
func (l *lookup) searched(content, calls string) string {
	if calls == "" || l.query.WithoutTools {
		return content
	}
	return strings.TrimPrefix(content+"\n"+wordindex.CallsText(calls), "\n")
}

// hits returns the hits for rows of the index, in the same order. It leaves out what can't be read because of damage.
func (l *lookup) hits(ctx context.Context, rowIDs []int64, terms []fulltext.Term) ([]Hit, error) {
	return db.ReadableOf(rowIDs, func(rowIDs []int64) ([]Hit, error) { return l.readHits(ctx, rowIDs, terms) })
}

func (l *lookup) readHits(ctx context.Context, rowIDs []int64, terms []fulltext.Term) ([]Hit, error) {
	rows, err := db.Short(ctx, l.conn, `
		SELECT s.key, c.id, c.uuid, c.title, m.seq, m.role, coalesce(m.tool_name, ''), m.sender, m.created_at, m.content, coalesce(m.tool_calls, ''), coalesce(m.metadata, ''), j.value
		FROM `+db.EachID("?")+` j JOIN messages m ON m.id = `+messageOf+`
			JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.deleted = 0 ORDER BY j.key`, db.IDs(rowIDs))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []foundHit
	for rows.Next() {
		h, err := l.scanHit(rows, terms)
		if err != nil {
			return nil, err
		}
		hits = append(hits, h)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	pages := pageReader{l: l, open: map[int64]*filepages.Text{}}
	defer pages.close()
	list := make([]Hit, len(hits))
	for i, h := range hits {
		if err := pages.add(ctx, &h, terms); err != nil {
			return nil, err
		}
		h.Turn, err = turns.Of(context.WithoutCancel(ctx), l.conn, h.conversation, h.Seq)
		if conversation.IsDamaged(err) { // an earlier message can't be read, so turns can't be counted
			h.Turn, err = 0, nil
		}
		if err != nil {
			return nil, err
		}
		list[i] = h.Hit
	}
	return list, nil
}

// foundHit is a hit that is being read.
type foundHit struct {
	Hit
	conversation int64 // the id of the conversation's row
	row          int64 // the row of the index
}

func (l *lookup) scanHit(rows *sql.Rows, terms []fulltext.Term) (h foundHit, err error) {
	var sender []byte
	var at int64
	var text, calls string
	err = rows.Scan(&h.Key, &h.conversation, &h.Conversation, &h.Title, &h.Seq, &h.Role, &h.ToolName, &sender, &at, &text, &calls, &h.Metadata, &h.row)
	if err == nil && len(sender) > 0 {
		err = json.Unmarshal(sender, &h.Sender)
	}
	if h.At = db.FromMillis(at); !wordindex.IsPage(h.row) {
		h.Snippet = l.snippet(h.Role, text, calls, terms)
	}
	return h, err
}

// maxPlain is the size in bytes up to which an answer is converted from Markdown to plain text for its snippet.
const maxPlain = 64 << 10

// snippet returns the part of a message that shows the terms. An answer is shown as plain text without Markdown, unless
// only the Markdown has the terms, for example in the address of a link.
func (l *lookup) snippet(role conversation.Role, text, calls string, terms []fulltext.Term) fulltext.Snippet {
	if role == conversation.RoleAssistant && len(text) <= maxPlain {
		plain := fulltext.NewSnippet(l.searched(markup.Plain(text), calls), terms)
		if plain.HasFound() {
			return plain
		}
		if raw := fulltext.NewSnippet(l.searched(text, calls), terms); raw.HasFound() {
			return raw
		}
		return plain
	}
	return fulltext.NewSnippet(l.searched(text, calls), terms)
}

// pageReader reads the pages of files that were found. It opens the text of each blob once.
type pageReader struct {
	l    *lookup
	open map[int64]*filepages.Text // by the ids of blobs
}

func (r *pageReader) close() {
	for _, text := range r.open {
		_ = text.Close() // nothing was written
	}
}

// add sets the file and the snippet of a hit whose row is a page of a file. The snippet stays empty if the page can't be
// read.
func (r *pageReader) add(ctx context.Context, h *foundHit, terms []fulltext.Term) error {
	if !wordindex.IsPage(h.row) {
		return nil
	}
	var blob, page int64
	f := &FilePage{}
	err := r.l.conn.QueryRowContext(ctx, `
		SELECT f.id, f.name, f.blob_id, p.page, coalesce((
			SELECT e.key FROM messages m CROSS JOIN `+db.Either(`json_each(CASE WHEN json_valid(m.files) THEN m.files ELSE '[]' END)`,
		`LATERAL (SELECT value, key - 1 AS key FROM json_array_elements(CAST(m.files AS json)) WITH ORDINALITY AS i(value, key))`)+` e
			WHERE m.id = f.message_id AND CAST(e.value ->> 'id' AS BIGINT) = f.id), -1)
		FROM file_pages p JOIN files f ON f.id = p.file_id WHERE p.id = ?`, h.row).Scan(&f.ID, &f.Name, &blob, &page, &f.N)
	if err != nil {
		return err
	}
	h.File, f.Page = f, page+1
	text := r.open[blob]
	if text == nil {
		if text, err = filepages.Open(ctx, r.l.conn, r.l.path, blob); err != nil {
			return nil
		}
		r.open[blob] = text
	}
	f.Pages = text.Pages()
	if said, err := text.Page(page); err == nil {
		h.Snippet = fulltext.NewSnippet(said, terms)
	}
	return nil
}
