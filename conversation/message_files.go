package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
)

// The files of a message are rows of the table files. A run makes them while it
// fetches the files of its inbound, and the commit gives them to the message.

// addFiles makes the rows of the files of a message that have none yet: pictures that
// came with their bytes, and files that are fetched later.
func addFiles(ctx context.Context, tx *sql.Tx, conversation int64, m Message) (Message, error) {
	m.Images, m.Files = slices.Clone(m.Images), slices.Clone(m.Files)
	for i := range m.Images {
		image := &m.Images[i]
		if image.ID != 0 || image.Data == nil {
			continue
		}
		blob, err := blobs.AddBytes(ctx, tx, image.Data, db.Millis(m.At))
		if err != nil {
			return m, err
		}
		row := fileRow{n: i, name: image.Name, mediaType: image.MediaType, size: int64(image.Size), blob: sql.NullInt64{Int64: blob, Valid: true}}
		if image.ID, err = row.insert(ctx, tx, conversation, db.Millis(m.At)); err != nil {
			return m, err
		}
		image.Data = nil
	}
	for i := range m.Files {
		file := &m.Files[i]
		if file.ID != 0 || file.Source == nil {
			continue
		}
		source, err := json.Marshal(file.Source)
		if err != nil {
			return m, err
		}
		row := fileRow{n: len(m.Images) + i, name: file.Name, mediaType: file.MediaType, size: file.Size,
			source: string(source), attempts: file.Source.Attempts, next: db.Millis(file.Source.Next)}
		if file.ID, err = row.insert(ctx, tx, conversation, db.Millis(m.At)); err != nil {
			return m, err
		}
		file.Source = nil
	}
	return m, nil
}

// fileRow is a new row of the table files.
type fileRow struct {
	n               int
	name, mediaType string
	size            int64
	blob            sql.NullInt64
	source          string // "" = it is here
	attempts        int
	next            int64
}

func (f fileRow) insert(ctx context.Context, tx *sql.Tx, conversation, at int64) (id int64, err error) {
	next := sql.NullInt64{Int64: f.next, Valid: f.source != ""}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO files (session_id, n, name, media_type, size, blob_id, source, attempts, next_at, created_at)
		SELECT session_id, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM conversations WHERE id = ?`,
		f.n, db.Text(f.name), db.Text(f.mediaType), f.size, f.blob, db.Nullable(f.source), f.attempts, next, at, conversation)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// claimFiles gives the rows of its files to a message. Of a file that came late it is
// then told that it is here.
func claimFiles(ctx context.Context, tx *sql.Tx, conversation, message int64, m Message) error {
	claim := func(id int64) error {
		if id == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, `
			UPDATE files SET message_id = ?, inbox_id = NULL, next_at = CASE WHEN blob_id IS NULL THEN next_at END
			WHERE id = ? AND session_id = (SELECT session_id FROM conversations WHERE id = ?)`, message, id, conversation)
		return err
	}
	for _, image := range m.Images {
		if err := claim(image.ID); err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		if err := claim(file.ID); err != nil {
			return err
		}
	}
	return nil
}

// dropFiles deletes the rows of the files of an inbound that no message has taken,
// such as those of a command.
func dropFiles(ctx context.Context, tx *sql.Tx, inbound int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM files WHERE inbox_id = ?`, inbound)
	return err
}

// dropUnclaimed deletes the rows of files that no message of a run has taken. Of an
// album, one message may have the files of all.
func dropUnclaimed(ctx context.Context, tx *sql.Tx, took []Inbound) error {
	if !slices.ContainsFunc(took, func(in Inbound) bool { return len(in.Attachments) > 0 }) {
		return nil
	}
	for _, in := range took {
		if err := dropFiles(ctx, tx, in.ID); err != nil {
			return err
		}
	}
	return nil
}

// ImageData returns the bytes of an image: its own, or those that are stored.
func (s *Store) ImageData(ctx context.Context, image Image) (data []byte, err error) {
	switch {
	case image.Data != nil:
		return image.Data, nil
	case image.ID != 0:
		return s.fileData(ctx, image.ID)
	}
	err = s.db.QueryRowContext(ctx, `SELECT data FROM images WHERE message_id = ? AND n = ?`, image.message, image.n).Scan(&data)
	return data, db.Explain(err)
}

func (s *Store) fileData(ctx context.Context, id int64) ([]byte, error) {
	blob, err := blobs.Scan(s.db.QueryRowContext(ctx, blobs.Select+`JOIN files f ON f.blob_id = b.id WHERE f.id = ?`, id))
	if err != nil {
		return nil, db.Explain(notFound(err))
	}
	reader, err := blobs.Open(ctx, s.db, s.db.Path(), blob)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	data := make([]byte, blob.Size)
	if _, err := io.ReadFull(reader.Whole(), data); err != nil {
		return nil, fmt.Errorf("read file %d: %w", id, err)
	}
	return data, nil
}

// FileAt returns a file of a conversation that is no picture: number n, from 0, of the
// message seq, with its session. The error is ErrNotFound if there is none.
func (s *Store) FileAt(ctx context.Context, conversation string, seq int64, n int) (file File, key Key, err error) {
	var column []byte
	var list []File
	err = s.db.QueryRowContext(ctx, `
		SELECT coalesce(m.files, '[]'), s.key FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.uuid = ? AND c.deleted = 0 AND m.seq = ?`, conversation, seq).Scan(&column, &key)
	if err == nil {
		err = json.Unmarshal(column, &list)
	}
	if err == nil && (n < 0 || n >= len(list)) {
		err = ErrNotFound
	}
	if err != nil {
		return File{}, "", db.Explain(fmt.Errorf("file %d of message %d of %s: %w", n, seq, conversation, notFound(err)))
	}
	return list[n], key, nil
}

// ImageAt returns a picture of a conversation with its bytes: the one with the
// place n, from 0, in the message seq. ErrNotFound when there is none.
func (s *Store) ImageAt(ctx context.Context, conversation string, seq int64, n int) (image Image, err error) {
	var parts []byte
	var images []Image
	var message int64
	err = s.db.QueryRowContext(ctx, `
		SELECT id, coalesce(parts, '[]') FROM messages
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND seq = ?`,
		conversation, seq).Scan(&message, &parts)
	if err == nil {
		err = json.Unmarshal(parts, &images)
	}
	if err == nil && (n < 0 || n >= len(images)) {
		err = ErrNotFound
	}
	if err == nil {
		image = images[n]
		image.message, image.n = message, n
		image.Data, err = s.ImageData(ctx, image)
	}
	if err != nil {
		return Image{}, db.Explain(fmt.Errorf("picture %d of message %d of %s: %w", n, seq, conversation, notFound(err)))
	}
	return image, nil
}

// SplitFiles returns what a person wrote in a message, without the lines about its
// files, and for each of m.Files the text that was read of it, "" for one that is
// only named. If the content does not have the lines, files is empty.
func (m Message) SplitFiles() (said string, files []string) {
	var b strings.Builder
	at := 0
	for _, f := range m.Files {
		if !f.isWithin(m.Content, at) {
			return m.Content, nil
		}
		b.WriteString(strings.TrimSuffix(m.Content[at:f.Lines.From], "\n"))
		files = append(files, m.Content[f.Body.From:f.Body.To])
		at = f.Lines.To
	}
	b.WriteString(m.Content[at:])
	return b.String(), files
}

// isWithin reports whether the extents of a file are parts of content behind at.
func (f File) isWithin(content string, at int) bool {
	if f.Lines.From < at || f.Lines.To < f.Lines.From || f.Lines.To > len(content) {
		return false
	}
	return f.Body == (Extent{}) || f.Lines.From <= f.Body.From && f.Body.From <= f.Body.To && f.Body.To <= f.Lines.To
}
