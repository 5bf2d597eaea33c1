package maintenance

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
)

// Large files lie in a folder beside the database. A copy holds them itself, so that
// it is one file, which can't be put back half.

// errChanged says that a large file was deleted while the database was being copied.
var errChanged = errors.New("files were deleted while they were copied")

// embed puts the large files of the database at source into a copy of it. Files that
// are missing or damaged there stay so, and are counted. live reads the source when
// others may delete files of it, and is nil when nobody does.
func embed(ctx context.Context, copied, source string, live db.Querier, progress Progress) (lost int64, err error) {
	target, err := sqlite.Open(copied, sqlite.Options{Journal: sqlite.NoRollback, NoSync: true, CacheKiB: 20_000})
	if err != nil {
		return 0, err
	}
	target.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, target.Close()) }()
	if has, err := hasTable(ctx, target, "blobs"); err != nil || !has {
		return 0, err // of an earlier version
	}
	large, err := largeBlobs(ctx, target)
	if err != nil {
		return 0, err
	}
	for i, b := range large {
		progress.Report(Embedding, int64(i), int64(len(large)))
		whole, err := embedOne(ctx, target, source, b)
		if err != nil {
			return lost, err
		}
		if whole {
			continue
		}
		if live != nil {
			var still bool
			err := live.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM blobs WHERE id = ? AND path = ?)`, b.ID, b.Path).Scan(&still)
			if err != nil {
				return lost, err
			}
			if !still {
				return lost, errChanged
			}
		}
		lost++
	}
	_, err = target.ExecContext(ctx, `DELETE FROM unused_paths`) // they are not in the folder of the copy
	return lost, err
}

func hasTable(ctx context.Context, q db.Querier, name string) (has bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)`, name).Scan(&has)
	return has, err
}

func largeBlobs(ctx context.Context, q db.Querier) (list []blobs.Blob, err error) {
	rows, err := q.QueryContext(ctx, blobs.Select+`WHERE b.path <> '' AND b.hash NOT LIKE 'deleted %'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		b, err := blobs.Scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, rows.Err()
}

// embedOne puts one large file into a copy, unless its bytes are not what they were.
func embedOne(ctx context.Context, target *sql.DB, source string, b blobs.Blob) (whole bool, err error) {
	reader, err := blobs.Open(ctx, target, source, b)
	if errors.Is(err, blobs.ErrMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	tx, err := target.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()
	hash, from, piece := sha256.New(), reader.Whole(), make([]byte, blobs.Piece)
	for n := 0; ; n++ {
		read, err := io.ReadFull(from, piece)
		if err == io.EOF {
			break
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return false, err
		}
		hash.Write(piece[:read])
		if _, err := tx.ExecContext(ctx, `INSERT INTO blob_pieces (blob_id, n, data) VALUES (?, ?, ?)`, b.ID, n, piece[:read]); err != nil {
			return false, err
		}
	}
	if hex.EncodeToString(hash.Sum(nil)) != b.Hash {
		// SQLite keeps no journal of the copy, so what was written is taken out again.
		if _, err := tx.ExecContext(ctx, `DELETE FROM blob_pieces WHERE blob_id = ?`, b.ID); err != nil {
			return false, err
		}
		return false, tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, `UPDATE blobs SET path = '' WHERE id = ?`, b.ID); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// files checks the bytes of every file that is kept.
func (v *verification) files(ctx context.Context, q db.Querier) error {
	if v.anyHit([]string{"blobs", "blob_pieces", "files"}) {
		return nil
	}
	if has, err := hasTable(ctx, q, "blobs"); err != nil || !has {
		return err
	}
	type kept struct {
		blobs.Blob
		name, session string
	}
	rows, err := q.QueryContext(ctx, `
		SELECT b.id, b.hash, b.size, b.media_type, b.path, f.name, s.key
		FROM blobs b JOIN files f ON f.blob_id = b.id JOIN sessions s ON s.id = f.session_id
		GROUP BY b.id ORDER BY b.id`)
	if err != nil {
		return err
	}
	var list []kept
	for rows.Next() {
		var k kept
		if err := rows.Scan(&k.ID, &k.Hash, &k.Size, &k.MediaType, &k.Path, &k.name, &k.session); err != nil {
			return errors.Join(err, rows.Close())
		}
		list = append(list, k)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	var texts []string
	for i, k := range list {
		v.progress.Report(Hashing, int64(i), int64(len(list)))
		problem, err := checkBlob(ctx, q, v.path, k.Blob)
		if err != nil {
			return err
		}
		if problem != "" {
			texts = append(texts, fmt.Sprintf("%s: the file %q %s.", k.session, k.name, problem))
		}
	}
	v.several(true, "files are hit", texts)
	return nil
}

// checkBlob returns what is wrong with the bytes of a file, "" if nothing is.
func checkBlob(ctx context.Context, q db.Querier, database string, b blobs.Blob) (problem string, err error) {
	reader, err := blobs.Open(ctx, q, database, b)
	if errors.Is(err, os.ErrNotExist) {
		return "is missing in the folder " + blobs.Folder(database), nil
	}
	if errors.Is(err, blobs.ErrMissing) {
		return "is damaged: it does not have as many bytes as it had", nil
	}
	if err != nil {
		return "", err
	}
	defer reader.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, reader.Whole())
	switch {
	case errors.Is(err, blobs.ErrMissing):
		return "is damaged: bytes of it are missing", nil
	case err != nil:
		return "", err
	case hex.EncodeToString(hash.Sum(nil)) != b.Hash:
		return "is damaged: its bytes are not what they were", nil
	}
	return "", nil
}
