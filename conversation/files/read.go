package files

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"parley/conversation"
	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/media"
)

// selectFiles is the query for files, without a condition.
const selectFiles = `
	SELECT f.id, s.key, f.name, f.media_type, f.size, f.created_at, coalesce(c.uuid, ''), coalesce(m.seq, 0),
		coalesce(b.id, 0), coalesce(b.hash, ''), coalesce(b.size, 0), coalesce(b.media_type, ''), coalesce(b.path, '')
	FROM files f JOIN sessions s ON s.id = f.session_id
		LEFT JOIN blobs b ON b.id = f.blob_id
		LEFT JOIN messages m ON m.id = f.message_id
		LEFT JOIN conversations c ON c.id = m.conversation_id `

// isVisible is the condition that people and the model may see a file. It excludes files of deleted
// conversations, of messages that were taken back, and of messages on branches that are not
// chosen.
const isVisible = ` AND (m.id IS NULL OR c.deleted = 0 AND m.state <> 'undone' AND m.set_aside IS NULL)`

func (f *Files) list(ctx context.Context, condition string, args ...any) ([]File, error) {
	rows, err := f.db.QueryContext(ctx, selectFiles+condition, args...)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []File
	for rows.Next() {
		var one File
		var at int64
		b := &one.blob
		err := rows.Scan(&one.ID, &one.Session, &one.Name, &one.Declared, &one.Size, &at, &one.Conversation, &one.Seq, &b.ID, &b.Hash, &b.Size, &b.MediaType, &b.Path)
		if err != nil {
			return nil, err
		}
		if one.At = db.FromMillis(at); one.IsHere() {
			one.Size, one.MediaType, one.Hash = b.Size, b.MediaType, b.Hash
		}
		list = append(list, one)
	}
	return list, db.Explain(rows.Err())
}

// OfSession returns the newest kept files of a session, the newest first, at most limit.
func (f *Files) OfSession(ctx context.Context, session conversation.Key, limit int) ([]File, error) {
	return f.list(ctx, `WHERE s.key = ? AND f.blob_id IS NOT NULL`+isVisible+` ORDER BY f.id DESC LIMIT ?`, string(session), limit)
}

// File returns a file of a session by its ID, kept or missing. The error is ErrNotFound if there is none.
func (f *Files) File(ctx context.Context, session conversation.Key, id int64) (File, error) {
	list, err := f.list(ctx, `WHERE f.id = ? AND s.key = ?`+isVisible, id, string(session))
	if err != nil {
		return File{}, err
	}
	if len(list) == 0 {
		return File{}, fmt.Errorf("file %d of %s: %w", id, session, ErrNotFound)
	}
	return list[0], nil
}

// FileAt returns a file of a message, and the key of its session. id is the ID of the
// conversation, and n the place among the message's files other than pictures, from 0. The
// error is conversation.ErrNotFound if there is none.
func (f *Files) FileAt(ctx context.Context, id string, seq int64, n int) (file media.File, key conversation.Key, err error) {
	var column []byte
	err = f.db.QueryRowContext(ctx, `
		SELECT coalesce(m.files, '[]'), s.key FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.uuid = ? AND c.deleted = 0 AND m.seq = ?`, id, seq).Scan(&column, &key)
	if err == nil {
		file, err = numbered[media.File](column, n)
	}
	if err != nil {
		return media.File{}, "", db.Explain(fmt.Errorf("file %d of message %d of %s: %w", n, seq, id, notFound(err)))
	}
	return file, key, nil
}

// Data returns the bytes of a kept file by its ID. The error is conversation.ErrNotFound if
// there is none.
func (f *Files) Data(ctx context.Context, id int64) ([]byte, error) {
	data, err := blobs.FileData(ctx, f.db, f.db.Path(), id)
	return data, notFound(err)
}

// ImageAt returns a picture of a message with its bytes. id is the ID of the conversation, and
// n the place among the message's pictures, from 0. The error is conversation.ErrNotFound if
// there is none. It is the same for a file of another type that an import has stored as a picture, since a browser might execute it.
func (f *Files) ImageAt(ctx context.Context, id string, seq int64, n int) (image media.Image, err error) {
	var column []byte
	var message int64
	err = f.db.QueryRowContext(ctx, `
		SELECT id, coalesce(parts, '[]') FROM messages
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND seq = ?`,
		id, seq).Scan(&message, &column)
	if err == nil {
		image, err = numbered[media.Image](column, n)
	}
	if err == nil && !media.IsImageType(image.MediaType) {
		err = conversation.ErrNotFound
	}
	if err == nil {
		image.Message, image.Place = message, n
		image.Data, err = f.store.ImageData(ctx, image)
	}
	if err != nil {
		return media.Image{}, db.Explain(fmt.Errorf("picture %d of message %d of %s: %w", n, seq, id, notFound(err)))
	}
	return image, nil
}

// numbered returns the element n of a JSON list, counted from 0, or conversation.ErrNotFound.
func numbered[T any](list []byte, n int) (one T, err error) {
	var all []T
	if err := json.Unmarshal(list, &all); err != nil {
		return one, err
	}
	if n < 0 || n >= len(all) {
		return one, conversation.ErrNotFound
	}
	return all[n], nil
}

// notFound returns conversation.ErrNotFound in place of sql.ErrNoRows, and other errors unchanged.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return conversation.ErrNotFound
	}
	return err
}

// Reader reads a file, from any offset. It is not safe for concurrent use.
type Reader = blobs.Reader

// Open opens a kept file. The caller must close the reader, and can use it only until ctx
// ends. The error is ErrNotFound if the file is missing.
func (f *Files) Open(ctx context.Context, file File) (*Reader, error) {
	if !file.IsHere() {
		return nil, ErrNotFound
	}
	return blobs.Open(ctx, f.db, f.db.Path(), file.blob)
}

// Form is a conversion of a file, which is made once and kept with the bytes of the file.
type Form struct {
	Kind      FormKind
	MediaType string
	Data      []byte
	Problem   string // why the conversion is not possible, for people; "" = Data has the result
}

// FormKind is the kind of a Form.
type FormKind string

const (
	FormText    FormKind = "text"    // the text of a document or a recording, in UTF-8
	FormPicture FormKind = "picture" // a picture in the size and type for the model
)

// Form returns a stored form of a file. ok is false if none of this kind is stored.
func (f *Files) Form(ctx context.Context, file File, kind FormKind) (form Form, ok bool, err error) {
	form.Kind = kind
	err = f.db.QueryRowContext(ctx, `SELECT media_type, data, problem FROM blob_forms WHERE blob_id = ? AND form = ?`,
		file.blob.ID, kind).Scan(&form.MediaType, &form.Data, &form.Problem)
	if errors.Is(err, sql.ErrNoRows) {
		return form, false, nil
	}
	return form, err == nil, db.Explain(err)
}

// AddForm stores a form of a file, unless one of its kind is stored already.
func (f *Files) AddForm(ctx context.Context, file File, form Form) error {
	if form.Data == nil {
		form.Data = []byte{}
	}
	return f.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO blob_forms (blob_id, form, media_type, data, problem)
			SELECT id, ?, ?, ?, ? FROM blobs WHERE id = ? ON CONFLICT (blob_id, form) DO NOTHING`,
			form.Kind, form.MediaType, form.Data, form.Problem, file.blob.ID)
		return err
	})
}
