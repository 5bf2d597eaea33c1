// Package talkrows holds the statements about group talk: messages in a place of the
// assistant that were not addressed to it. They are in no conversation.
package talkrows

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// The limits of what is stored, and of what is shown to the model.
const (
	maxKept       = 1000     // how many messages of a place are stored
	maxText       = 4000     // how many characters of a message are stored
	maxShownText  = 500      // how many characters of a message are shown
	maxShownBytes = 32 << 10 // how many bytes are shown together
)

// Line is one message. ID and Name are those of the sender.
type Line struct {
	ID, Name string
	Text     string
	At       int64 // milliseconds

	row int64
}

// Add stores a message of a place, unless it is stored already. It then deletes the place's
// oldest messages if there are more than 1,000.
func Add(ctx context.Context, tx db.Tx, place, sourceID string, sender []byte, text string, now int64) error {
	session, err := rows.SessionOf(ctx, tx, place)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO group_talk (session, source_id, sender, text, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (source_id, session) DO NOTHING`,
		session, sourceID, string(sender), cut(db.Text(text), maxText), now)
	if err == nil {
		_, err = tx.ExecContext(ctx, `
			DELETE FROM group_talk WHERE session = ?1 AND id <= (SELECT id FROM group_talk WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`,
			session, maxKept)
	}
	return err
}

// Take returns the newest messages of a place that were not shown to the model yet, one on each
// line, the oldest first. The parameter most limits their number, and they have at most 32 KiB
// together; each is cut after 500 characters. Unless keep is true, Take marks them and all older ones as
// shown, but none that another node adds meanwhile.
func Take(ctx context.Context, tx db.Tx, place string, most int, keep bool) (string, error) {
	session, err := rows.SessionOf(ctx, tx, place)
	if err != nil {
		return "", err
	}
	list, err := Read(ctx, tx, session, "shown = 0", most)
	if err != nil || len(list) == 0 {
		return "", err
	}
	if !keep {
		if _, err := tx.ExecContext(ctx, `UPDATE group_talk SET shown = 1 WHERE session = ? AND shown = 0 AND id <= ?`, session, list[0].row); err != nil {
			return "", err
		}
	}
	names := Names(list)
	var shown []string
	size := 0
	for _, line := range list { // the newest first
		text := names[line.ID] + ": " + strings.ReplaceAll(cut(line.Text, maxShownText), "\n", "\n  ")
		if size += len(text); size > maxShownBytes {
			break
		}
		shown = append(shown, text)
	}
	slices.Reverse(shown)
	return strings.Join(shown, "\n"), nil
}

// Read returns the newest messages of a session that meet an SQL condition, the newest first, at most
// most.
func Read(ctx context.Context, q db.Querier, session, condition string, most int) (list []Line, err error) {
	found, err := q.QueryContext(ctx, `
		SELECT id, sender, text, created_at FROM group_talk WHERE session = ? AND `+condition+` ORDER BY id DESC LIMIT ?`, session, most)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var line Line
		var sender []byte
		if err := found.Scan(&line.row, &sender, &line.Text, &line.At); err != nil {
			return nil, err
		}
		var who struct{ ID, Name string }
		if err := json.Unmarshal(sender, &who); err != nil {
			return nil, fmt.Errorf("sender of group talk: %w", err)
		}
		line.ID, line.Name = who.ID, who.Name
		list = append(list, line)
	}
	return list, found.Err()
}

// Names returns the shown name of each sender, by id. list has the newest message first. If several
// people have the same name, the id is added for all but the one whose message is the oldest.
func Names(list []Line) map[string]string {
	holders, names := map[string]string{}, map[string]string{}
	for _, line := range slices.Backward(list) {
		name := strings.ToLower(line.Name)
		holder, taken := holders[name]
		switch {
		case taken && holder != line.ID:
			names[line.ID] = line.Name + " (" + line.ID + ")"
		default:
			holders[name], names[line.ID] = line.ID, line.Name
		}
	}
	return names
}

// Remove deletes a message of a channel. It is for a message that was deleted on the platform, or that
// turns out to be for the assistant.
func Remove(ctx context.Context, tx db.Tx, channel, sourceID string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM group_talk WHERE source_id = ? AND substr(session, 1, ?) = ?`, sourceID, len(channel)+1, channel+":")
	return err
}

// Edit replaces the text of a message of a channel, if it is stored.
func Edit(ctx context.Context, tx db.Tx, channel, sourceID, text string) error {
	_, err := tx.ExecContext(ctx, `UPDATE group_talk SET text = ? WHERE source_id = ? AND substr(session, 1, ?) = ?`,
		cut(text, maxText), sourceID, len(channel)+1, channel+":")
	return err
}

// Forget deletes all messages of a place. It is for a place whose conversation was deleted.
func Forget(ctx context.Context, tx db.Tx, place string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM group_talk WHERE session = ?`, place)
	return err
}

// cut cuts a text after a number of characters, and adds an ellipsis then.
func cut(text string, characters int) string {
	if len(text) <= characters {
		return text
	}
	if list := []rune(text); len(list) > characters {
		return string(list[:characters]) + " …"
	}
	return text
}
