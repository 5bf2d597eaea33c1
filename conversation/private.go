package conversation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// othersBits are the permissions of group and others.
const othersBits fs.FileMode = 0o077

// tightenFiles takes from group and others what permissions they have on an
// existing database and the files beside it. What can't be changed, because
// the file belongs to another user, is logged and left as it is.
func (s *Store) tightenFiles() {
	for _, file := range []string{s.path, s.path + "-wal", s.path + "-shm", s.path + ".lock"} {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&othersBits == 0 {
			continue // what is not there, SQLite makes with the mode of the database
		}
		before, after := info.Mode().Perm(), info.Mode().Perm()&^othersBits
		switch err := os.Chmod(file, after); {
		case errors.Is(err, fs.ErrNotExist): // another process has closed the database
		case err != nil:
			s.log.Warn("other users of this machine may reach what people said, and the file's mode can't be changed",
				"file", file, "mode", octal(before), "error", err)
		default:
			s.log.Warn("other users of this machine could reach what people said; the file's mode was tightened",
				"file", file, "mode", octal(after), "before", octal(before))
		}
	}
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode) }
