package move

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/metadata"
)

// rows reads the rows of a table as the target stores them, after the one of a key.
func (m *mover) rows(ctx context.Context, t table, after []any) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for r, err := range m.from.read(ctx, t, after) {
			if err == nil && isOfIndex(t, r) {
				continue
			}
			if err == nil {
				err = m.convert(ctx, t, r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// isOfIndex reports whether a row is a cursor of what is made anew in the target, or counted there in another way.
func isOfIndex(t table, r row) bool {
	if t.name != "cursors" {
		return false
	}
	name := r.values[t.column("name")].(string)
	return name == "run_totals" || strings.HasPrefix(name, "messages_fts") || strings.HasPrefix(name, "messages_ranks")
}

func (m *mover) convert(ctx context.Context, t table, r row) error {
	toServer := db.IsURL(m.To)
	switch t.name {
	case "blobs": // all bytes are in the database
		r.values[t.column("path")] = ""
	case "embeddings":
		done := int64(0)
		if !toServer {
			var err error
			if done, err = m.from.embedded(ctx); err != nil {
				return fmt.Errorf("count the messages without vectors: %w", err)
			}
		}
		r.values[t.column("done")], r.values[t.column("owner")], r.values[t.column("claimed_until")] = done, "", int64(0)
	}
	if toServer {
		m.replaceInvalid(t, r.values)
	}
	return nil
}

// parsed are the columns of JSON that statements on PostgreSQL parse.
var parsed = []string{"metadata", "parts", "pictures", "sender", "step", "steps", "took"}

// replaceInvalid replaces what PostgreSQL can't store in texts: NUL, and bytes that are no UTF-8. In JSON that statements parse, it also
// replaces escapes that stand for such.
func (m *mover) replaceInvalid(t table, values []any) {
	for i, value := range values {
		text, is := value.(string)
		if !is {
			continue
		}
		clean := strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
		if strings.Contains(clean, `\u`) && slices.Contains(parsed, t.columns[i].name) {
			clean = metadata.Comparable(clean)
		}
		if clean != text {
			values[i] = clean
			m.replaced++
		}
	}
}
