// Package filepages adds the text of long files to the search index, in pages.
//
// A message holds the beginning of a file's text, and is found by it. The pages after that
// have rows of their own in the index, next to the messages of their conversation, so that one
// search finds both. They are added in the background, a few in each transaction. Triggers list
// a file in unread_files when it or its text is stored.
package filepages

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
	"parley/conversation/media"
)

const (
	pagesAtOnce   = 10  // how many pages are added in one transaction, so that no write waits long
	deletedAtOnce = 100 // how many pages are deleted in one transaction
)

// Chore returns the chore that adds and deletes pages. In the list of chores it must come before
// the one that removes deleted words. database is the path or URL of the database.
func Chore(database string) db.Chore {
	return db.Chore{Name: "long files in the search index", Step: func(ctx context.Context, tx db.Tx) (done bool, err error) {
		return step(ctx, tx, database)
	}}
}

func step(ctx context.Context, tx db.Tx, database string) (done bool, err error) {
	if done, err = deletePages(ctx, tx); err != nil || !done {
		return false, err
	}
	var file, page int64
	err = tx.QueryRowContext(ctx, `SELECT file_id, page FROM unread_files ORDER BY file_id LIMIT 1`).Scan(&file, &page)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := wordindex.Merge(ctx, tx); err != nil {
		return false, err
	}
	return false, read(ctx, tx, database, file, page)
}

// deletePages deletes some pages that belong to no file any more. done reports that there were none.
func deletePages(ctx context.Context, tx db.Tx) (done bool, err error) {
	ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT id FROM file_pages WHERE file_id IS NULL LIMIT ?`, deletedAtOnce))
	if err != nil || len(ids) == 0 {
		return err == nil, err
	}
	if err := wordindex.Merge(ctx, tx); err != nil {
		return false, err
	}
	for _, id := range ids {
		if err := wordindex.DeletePage(ctx, tx, id); err != nil {
			return false, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM file_pages WHERE id = ?`, id); err != nil {
			return false, err
		}
	}
	if len(ids) == deletedAtOnce {
		return false, nil
	}
	return false, wordindex.ScheduleScrub(ctx, tx)
}

// read adds the next pages of a file, from the page on; -1 = from the beginning. It leaves out a file
// that can't be read: search then finds it by the part that its message holds.
func read(ctx context.Context, tx db.Tx, database string, id, page int64) error {
	file, err := fileOf(ctx, tx, id)
	if err != nil {
		return err
	}
	if file.message == 0 {
		return forget(ctx, tx, id)
	}
	if page < 0 {
		result, err := tx.ExecContext(ctx, `UPDATE file_pages SET file_id = NULL WHERE file_id = ?`, id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err // deletePages must delete the pages of an earlier text first
		}
	}
	text, err := Open(ctx, tx, database, file.blob)
	if err != nil {
		return forget(ctx, tx, id)
	}
	defer text.Close()
	if page < 0 {
		page = text.unheld(file.held)
	}
	for range pagesAtOnce {
		if page >= text.Pages() {
			return forget(ctx, tx, id)
		}
		said, err := text.Page(page)
		if err != nil {
			return forget(ctx, tx, id)
		}
		if err := file.add(ctx, tx, page, said); err != nil {
			return err
		}
		page++
	}
	_, err = tx.ExecContext(ctx, `UPDATE unread_files SET page = ? WHERE file_id = ?`, page, id)
	return err
}

// forget removes a file from unread_files.
func forget(ctx context.Context, tx db.Tx, id int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM unread_files WHERE file_id = ?`, id)
	return err
}

// file is a file of a message. The fields are ids of rows, except held.
type file struct {
	id, message, conversation, session int64 // message is 0 if the file does not exist or has no message
	blob                               int64
	held                               int64 // how many bytes of its text the message holds
}

func fileOf(ctx context.Context, tx db.Tx, id int64) (f file, err error) {
	var column []byte
	err = tx.QueryRowContext(ctx, `
		SELECT f.id, m.id, m.conversation_id, c.session_id, f.blob_id, coalesce(m.files, '[]')
		FROM files f JOIN messages m ON m.id = f.message_id JOIN conversations c ON c.id = m.conversation_id
		WHERE f.id = ? AND f.blob_id IS NOT NULL AND c.deleted = 0`, id).Scan(&f.id, &f.message, &f.conversation, &f.session, &f.blob, &column)
	if errors.Is(err, sql.ErrNoRows) {
		return file{}, nil
	}
	if err != nil {
		return file{}, err
	}
	var list []media.File
	if json.Unmarshal(column, &list) == nil { // a damaged list counts as empty
		for _, held := range list {
			if held.ID == f.id {
				f.held = int64(held.Body.To - held.Body.From)
			}
		}
	}
	return f, nil
}

// add adds one page to the index, in the row after the last page of the conversation.
func (f file) add(ctx context.Context, tx db.Tx, page int64, said string) error {
	if strings.TrimSpace(said) == "" {
		return nil
	}
	first := wordindex.FirstPage(f.conversation)
	var row int64
	err := tx.QueryRowContext(ctx, `
		INSERT INTO file_pages (id, file_id, page)
		SELECT coalesce(max(id) + 1, ?1), ?3, ?4 FROM file_pages WHERE id BETWEEN ?1 AND ?2
		RETURNING id`, first, wordindex.LastPage(f.conversation), f.id, page).Scan(&row)
	if err != nil {
		return err
	}
	return wordindex.AddPage(ctx, tx, row, f.session, said)
}
