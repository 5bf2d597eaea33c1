package blobs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlitefile"
)

// Draft is a blob that is being received. While it has at most inline bytes, they are in memory.
// A larger draft is written to a file in the folder or, for PostgreSQL, to a temporary file, from
// which Add copies it into the database. The caller calls Write any number of times, then Finish,
// Add in a transaction, and Close.
type Draft struct {
	database string
	inline   int64

	hash  hash.Hash
	size  int64
	head  []byte   // the first bytes, from which the media type is found
	data  []byte   // all bytes, if there are at most inline
	file  *os.File // otherwise the file that has them; a file in the folder is locked, so that no process removes it as a leftover
	name  string   // the name of this file in the folder; "" = it is a temporary file
	added string   // the path of the blob that Add has stored or found
}

// NewDraft returns an empty draft for the database with this path or URL. A draft of at most
// inline bytes is held in memory, and kept in the database.
func NewDraft(database string, inline int64) *Draft {
	return &Draft{database: database, inline: inline, hash: sha256.New()}
}

// sniffed is how many bytes http.DetectContentType reads, at most.
const sniffed = 512

// unfinished is the suffix of a file's name until all its bytes are on disk.
const unfinished = ".unfinished"

// Write adds bytes.
func (d *Draft) Write(p []byte) (int, error) {
	d.hash.Write(p)
	d.size += int64(len(p))
	if room := sniffed - len(d.head); room > 0 {
		d.head = append(d.head, p[:min(room, len(p))]...)
	}
	if d.file == nil {
		if d.size <= d.inline {
			d.data = append(d.data, p...)
			return len(p), nil
		}
		if err := d.spill(); err != nil {
			return 0, err
		}
	}
	return d.file.Write(p)
}

// spill moves the bytes that were written so far into a file.
func (d *Draft) spill() (err error) {
	if db.IsURL(d.database) {
		d.file, err = temporaryFile()
	} else {
		err = d.createFile()
	}
	if err == nil {
		_, err = d.file.Write(d.data)
	}
	d.data = nil
	return err
}

// temporaryFile returns a file without a name, which is deleted when it is closed.
func temporaryFile() (*os.File, error) {
	file, err := os.CreateTemp("", "parley-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// createFile creates and locks a file in the folder, and the folder if it does not exist.
func (d *Draft) createFile() error {
	folder := Folder(d.database)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	} else if err == nil {
		if err := sqlitefile.SyncFolder(folder); err != nil {
			return err
		}
	}
	d.name = strings.ToLower(rand.Text())
	file, err := os.OpenFile(filepath.Join(folder, d.name+unfinished), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	d.file = file
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Finish syncs a file in the folder to disk and gives it its final name. It does nothing for other
// drafts. Nothing can be written afterwards.
func (d *Draft) Finish() error {
	if d.name == "" {
		return nil
	}
	path := filepath.Join(Folder(d.database), d.name)
	err := d.file.Sync()
	if err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err == nil {
		err = sqlitefile.SyncFolder(path)
	}
	return err
}

// Size returns the number of bytes that were written.
func (d *Draft) Size() int64 { return d.size }

// Hash returns the SHA-256 of the written bytes in hexadecimal.
func (d *Draft) Hash() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// MediaType returns the media type of the written bytes.
func (d *Draft) MediaType() string { return MediaType(d.head) }

// MediaType returns the media type of a file from its first bytes, without parameters. It knows
// more types of recordings and pictures than http.DetectContentType.
func MediaType(head []byte) string {
	found, _, _ := strings.Cut(http.DetectContentType(head), ";")
	switch {
	case len(head) >= 12 && string(head[4:8]) == "ftyp":
		return ofBrand(string(head[8:12]))
	case found != "application/octet-stream":
		return found
	case bytes.HasPrefix(head, []byte("fLaC")):
		return "audio/flac"
	case bytes.HasPrefix(head, []byte("#!AMR")):
		return "audio/amr"
	case isMP3(head):
		return "audio/mpeg"
	}
	return found
}

// ofBrand returns the media type of a file in the ISO base media format by its brand:
// https://mp4ra.org/registered-types/brands
func ofBrand(brand string) string {
	switch brand {
	case "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1":
		return "image/heic"
	case "avif", "avis":
		return "image/avif"
	}
	if strings.HasPrefix(brand, "M4") && brand != "M4V " {
		return "audio/mp4"
	}
	return "video/mp4"
}

// isMP3 reports whether a file begins with the header of an MP3 frame (ISO 11172-3, 2.4.1.3).
// MP3 files without an ID3 tag do.
func isMP3(head []byte) bool {
	return len(head) >= 4 && head[0] == 0xFF && head[1]&0xE6 == 0xE2 && // sync, layer III
		head[1]&0x18 != 0x08 && head[2]>>4 != 0x0F && head[2]>>4 != 0 && head[2]&0x0C != 0x0C // no reserved version, bit rate or sampling
}

// Add stores the draft in a transaction, unless there is a blob with the same bytes, and returns
// the id of the blob. It may be called again if the transaction is repeated. at is the present
// in milliseconds.
func (d *Draft) Add(ctx context.Context, tx db.Tx, at int64) (id int64, err error) {
	b, found, err := find(ctx, tx, d.Hash())
	if err != nil {
		return 0, err
	}
	if found {
		d.added = b.Path
		if b.Path == "" || isWhole(d.database, b) {
			return b.ID, nil
		}
		return b.ID, d.replace(ctx, tx, b.ID)
	}
	d.added = d.name
	return d.insert(ctx, tx, at)
}

func (d *Draft) insert(ctx context.Context, tx db.Tx, at int64) (id int64, err error) {
	id, err = db.Insert(ctx, tx, `INSERT INTO blobs (hash, size, media_type, path, created_at) VALUES (?, ?, ?, ?, ?)`,
		d.Hash(), d.size, d.MediaType(), d.name, at)
	if err != nil {
		return 0, err
	}
	return id, d.addPieces(ctx, tx, id)
}

// replace stores the bytes of the draft for a blob whose file is missing.
func (d *Draft) replace(ctx context.Context, tx db.Tx, id int64) error {
	d.added = d.name
	if _, err := tx.ExecContext(ctx, `UPDATE blobs SET path = ? WHERE id = ?`, d.name, id); err != nil {
		return err
	}
	return d.addPieces(ctx, tx, id)
}

// addPieces stores the bytes in blob_pieces, unless they are in the folder.
func (d *Draft) addPieces(ctx context.Context, tx db.Tx, id int64) error {
	if d.name != "" {
		return nil
	}
	var content io.Reader = bytes.NewReader(d.data)
	if d.file != nil {
		content = io.NewSectionReader(d.file, 0, d.size)
	}
	piece := make([]byte, min(d.size, Piece))
	for n, left := 0, d.size; left > 0; n++ {
		piece = piece[:min(left, Piece)]
		if _, err := io.ReadFull(content, piece); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO blob_pieces (blob_id, n, data) VALUES (?, ?, ?)`, id, n, piece); err != nil {
			return err
		}
		left -= int64(len(piece))
	}
	return nil
}

// isWhole reports whether the file of a large blob exists and has its size.
func isWhole(database string, b Blob) bool {
	info, err := os.Stat(filepath.Join(Folder(database), b.Path))
	return err == nil && info.Size() == b.Size
}

// Close releases the draft. It removes a file that was not finished. stored says that the
// transaction was committed: then Close also removes a file that no blob needs, since the same
// bytes were kept before. It leaves other files to SweepFolder, since a transaction may be on disk
// although its commit returned an error.
func (d *Draft) Close(stored bool) error {
	if d.file == nil {
		return nil
	}
	if d.name == "" {
		return d.file.Close()
	}
	path := filepath.Join(Folder(d.database), d.name)
	err := os.Remove(path + unfinished)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if stored && d.added != d.name {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, d.file.Close())
}
