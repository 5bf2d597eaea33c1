package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/media"
)

// The files of a message are rows of the table files. A run creates the rows when it fetches
// the files of its inbound, and the commit assigns them to the message.

// addFiles makes the rows of the files of a message that have none yet: pictures that
// came with their bytes, and files that are fetched later.
func addFiles(ctx context.Context, tx db.Tx, conversation int64, m Message) (Message, error) {
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
		row := rows.File{N: i, Name: image.Name, MediaType: image.MediaType, Size: int64(image.Size), Blob: sql.NullInt64{Int64: blob, Valid: true}}
		if image.ID, err = row.Insert(ctx, tx, conversation, db.Millis(m.At)); err != nil {
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
		row := rows.File{N: len(m.Images) + i, Name: file.Name, MediaType: file.MediaType, Size: file.Size,
			Source: string(source), Attempts: file.Source.Attempts, Next: db.Millis(file.Source.Next)}
		if file.ID, err = row.Insert(ctx, tx, conversation, db.Millis(m.At)); err != nil {
			return m, err
		}
		file.Source = nil
	}
	return m, nil
}

// claimFiles gives the rows of its files to a message. Of a file that came late it is
// then told that it is here, and one that is read again later is noted as such.
func claimFiles(ctx context.Context, tx db.Tx, conversation, message int64, m Message) error {
	claim := func(id int64, again sql.NullInt64) error {
		if id == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, `
			UPDATE files SET message_id = ?, inbox_id = NULL, next_at = CASE WHEN blob_id IS NULL THEN next_at ELSE ? END
			WHERE id = ? AND session_id = (SELECT session_id FROM conversations WHERE id = ?)`, message, again, id, conversation)
		return err
	}
	for _, image := range m.Images {
		if err := claim(image.ID, sql.NullInt64{}); err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		again := sql.NullInt64{Int64: db.Millis(file.Again), Valid: !file.Again.IsZero()}
		if err := claim(file.ID, again); err != nil {
			return err
		}
	}
	return nil
}

// KeepPictures stores the pictures of a message of a run that is not committed yet. Its
// commit gives them to the message, or deletes them where it does not store the message.
// For package journal.
func KeepPictures(ctx context.Context, tx db.Tx, run int64, m Message, now time.Time) (Message, error) {
	m.Images = slices.Clone(m.Images)
	at := db.Millis(now)
	for i := range m.Images {
		image := &m.Images[i]
		blob, err := blobs.AddBytes(ctx, tx, image.Data, at)
		if err != nil {
			return m, err
		}
		image.ID, err = db.Insert(ctx, tx, `
			INSERT INTO files (session_id, inbox_id, n, name, media_type, size, blob_id, created_at)
			SELECT session_id, id, (SELECT coalesce(min(n), 0) - 1 FROM files WHERE inbox_id = ?1 AND n < 0), ?2, ?3, ?4, ?5, ?6 FROM inbox WHERE id = ?1`,
			run, db.Text(image.Name), db.Text(image.MediaType), image.Size, blob, at)
		if err != nil {
			return m, err
		}
		image.Data = nil
	}
	return m, nil
}

// dropFiles deletes the rows of the files of an inbound that no message has taken,
// such as those of a command.
func dropFiles(ctx context.Context, tx db.Tx, inbound int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM files WHERE inbox_id = ?`, inbound)
	return err
}

// dropUnclaimed deletes the rows of files that no message of a run has taken: of an
// album, one message may have the files of all, and pictures of tools may come with
// results that are not stored.
func dropUnclaimed(ctx context.Context, tx db.Tx, run Run) error {
	for i, in := range run.Took {
		hasPictures := i == 0 && run.Journal != 0 // those of the run's tools
		if len(in.Attachments) == 0 && in.Revision == 0 && !hasPictures {
			continue
		}
		if err := dropFiles(ctx, tx, in.ID); err != nil {
			return err
		}
	}
	return nil
}

// ImageData returns the bytes of an image: its own, or those that are stored.
func (s *Store) ImageData(ctx context.Context, image media.Image) (data []byte, err error) {
	switch {
	case image.Data != nil:
		return image.Data, nil
	case image.ID != 0:
		data, err = blobs.FileData(ctx, s.db, s.db.Path(), image.ID)
		return data, notFound(err)
	}
	err = s.db.QueryRowContext(ctx, `SELECT data FROM images WHERE message_id = ? AND n = ?`, image.Message, image.Place).Scan(&data)
	return data, db.Explain(err)
}

// SplitFiles returns what a person wrote in a message, without the lines about its
// files, and for each of m.Files the text that was read of it, "" for one that is
// only named. If the content does not have the lines, files is empty.
func (m Message) SplitFiles() (said string, files []string) {
	var b strings.Builder
	at := 0
	for _, f := range m.Files {
		if !f.Within(m.Content, at) {
			return m.Content, nil
		}
		b.WriteString(strings.TrimSuffix(m.Content[at:f.Lines.From], "\n"))
		files = append(files, m.Content[f.Body.From:f.Body.To])
		at = f.Lines.To
	}
	b.WriteString(m.Content[at:])
	return b.String(), files
}
