package httpserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"parley/internal/durable"
)

// tokenFileName is the name of the file, beside the database, with the token that
// the gateway has made.
const tokenFileName = "http-token"

// TokenPath returns the path of the token's file for a database.
func TokenPath(database string) string { return filepath.Join(filepath.Dir(database), tokenFileName) }

// TokenFile is a token that the gateway has made, in a file that only its owner
// can read. The file may be replaced while the gateway runs. It is safe for
// concurrent use.
type TokenFile struct {
	path  string
	owner owner
	log   *slog.Logger
	noted func(token string)

	mu    sync.Mutex
	token string
	seen  fileState // state of the file when it was read last, also if it was refused
}

// OpenTokenFile returns the token beside a database, and makes one where there is
// none. Of several processes that start at once, one makes it and all use it.
// noted is called with each token, also the first, so that logs can hide it; it
// may be nil.
func OpenTokenFile(database string, log *slog.Logger, noted func(token string)) (*TokenFile, error) {
	f := &TokenFile{path: TokenPath(database), owner: ownerOf(database), log: log, noted: noted}
	if f.noted == nil {
		f.noted = func(string) {}
	}
	token, state, err := readTokenFile(f.path, f.owner, log)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeTokenFile(f.path, f.owner, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("the HTTP server's token can't be stored in %s: %w; a token of your own can be given to it instead: "+
				"token_file in the section [http], or HTTP_TOKEN", f.path, err)
		}
		log.Debug("HTTP token created", "file", f.path)
		token, state, err = readTokenFile(f.path, f.owner, log)
	}
	if err != nil {
		return nil, tokenFileError(f.path, err)
	}
	f.token, f.seen = token, state
	f.noted(token)
	return f, nil
}

// ReadTokenFile returns the token beside a database. The error is fs.ErrNotExist
// where no gateway has made one yet.
func ReadTokenFile(database string) (string, error) {
	path := TokenPath(database)
	token, _, err := readTokenFile(path, ownerOf(database), slog.New(slog.DiscardHandler))
	if err != nil {
		return "", tokenFileError(path, err)
	}
	return token, nil
}

// RotateTokenFile replaces the token beside a database. A running gateway uses
// the new one from its next request on.
func RotateTokenFile(database string) error {
	path := TokenPath(database)
	if err := writeTokenFile(path, ownerOf(database), os.Rename); err != nil {
		return tokenFileError(path, err)
	}
	return nil
}

// Token returns the token that is in force, which the file holds now. While the
// file is missing or empty, it returns the last one.
func (f *TokenFile) Token() string {
	now := stateOf(f.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if now == f.seen {
		return f.token
	}
	token, state, err := readTokenFile(f.path, f.owner, f.log)
	if err != nil {
		f.seen = now
		f.log.Error("HTTP token file not readable; the earlier token stays in force until the next start", "error", tokenFileError(f.path, err))
		return f.token
	}
	f.seen = state
	if token != f.token {
		f.token = token
		f.noted(token)
		f.log.Info("token replaced; earlier sign-ins are void", "file", f.path)
	}
	return f.token
}

func tokenFileError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no token in %s yet (%w)", path, fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the user with the id %d may not use %s, the file of the HTTP server's token: do this as the user of the gateway (%w)", os.Geteuid(), path, err)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s, the file of the HTTP server's token: %w", path, err)
}

// fileState identifies a version of a file, to notice that it was replaced or changed. The zero value stands
// for no file.
type fileState struct {
	device, inode uint64
	size          int64
	modified      int64 // nanoseconds of Unix time
}

func stateOf(path string) fileState {
	info, err := os.Lstat(path)
	if err != nil {
		return fileState{}
	}
	return newFileState(info)
}

func newFileState(info fs.FileInfo) fileState {
	state := fileState{size: info.Size(), modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		state.device, state.inode = uint64(stat.Dev), stat.Ino
	}
	return state
}

// owner is the user to whom the token's file belongs.
type owner struct{ uid, gid int }

// ownerOf returns the user of this process, or for root the owner of the
// database: what root does by hand must not lock out the gateway's own user.
func ownerOf(database string) owner {
	us := owner{os.Geteuid(), os.Getegid()}
	if us.uid != 0 {
		return us
	}
	info, err := os.Stat(database)
	if err != nil {
		return us
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		us = owner{int(stat.Uid), int(stat.Gid)}
	}
	return us
}

// mayOwn reports whether a file of a user may hold the token. In a folder in
// which others may write, a file of theirs must not.
func (o owner) mayOwn(uid int) bool { return slices.Contains([]int{o.uid, os.Geteuid()}, uid) }

const maxTokenFile = 4 << 10

// readTokenFile reads a token. It tightens a mode that lets other users read the
// file, and logs that.
func readTokenFile(path string, owner owner, log *slog.Logger) (string, fileState, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = errors.New("it is a link, and only a file is taken: name the file that it leads to as token_file in the section [http]")
	}
	if err != nil {
		return "", fileState{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fileState{}, err
	}
	if !info.Mode().IsRegular() {
		return "", fileState{}, fmt.Errorf("found %s, allowed: a file; take it away, and the next start makes one", kindOf(info))
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && !owner.mayOwn(int(stat.Uid)) {
		return "", fileState{}, fmt.Errorf("it belongs to the user with the id %d, who knows what it holds, and not to %d: take it away, and the next start makes one",
			stat.Uid, owner.uid)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	if err != nil {
		return "", fileState{}, err
	}
	token, err := tokenIn(string(text))
	if err != nil {
		return "", fileState{}, err
	}
	return token, newFileState(info), tighten(file, info, log)
}

// tighten removes the permissions of group and others.
func tighten(file *os.File, info fs.FileInfo, log *slog.Logger) error {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return nil
	}
	if err := file.Chmod(mode &^ 0o077); err != nil {
		return fmt.Errorf("its mode %04o lets other users of this machine read it, and can't be changed: %w", mode, err)
	}
	log.Warn("HTTP token was readable by other users, file mode tightened; `gateway token rotate` makes a new token",
		"file", file.Name(), "before", fmt.Sprintf("%04o", mode))
	return nil
}

// tokenIn returns the token in a text.
func tokenIn(text string) (string, error) {
	const remedy = "; `gateway token rotate` makes a new one"
	token := strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	switch {
	case len(text) > maxTokenFile:
		return "", fmt.Errorf("found more than %d bytes, allowed: the token and nothing else%s", maxTokenFile, remedy)
	case token == "":
		return "", fmt.Errorf("found no token in it%s", remedy)
	case strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || !unicode.IsPrint(r) }):
		return "", fmt.Errorf("found what is no token, allowed: one line of printable ASCII without spaces%s", remedy)
	case len(token) < minToken:
		return "", fmt.Errorf("found a token of %d characters, allowed: at least %d%s", len(token), minToken, remedy)
	}
	return token, nil
}

func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return "a folder"
	}
	return "a device or pipe"
}

// writeTokenFile stores a new token durably in a file beside path. put then gives
// it that name: os.Link, which fails with fs.ErrExist where there is one, or
// os.Rename. There is never half a token under the name.
func writeTokenFile(path string, owner owner, put func(from, to string) error) error {
	return durable.WriteFile(path, "."+tokenFileName+"-*", func(file *os.File) error {
		_, err := fmt.Fprintln(file, rand.Text())
		if err == nil && owner.uid != os.Geteuid() {
			err = file.Chown(owner.uid, owner.gid)
		}
		return err
	}, put)
}
