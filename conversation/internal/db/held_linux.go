package db

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// holdFile opens a file so that it can be neither read nor written, and so that
// closing it drops none of the locks that SQLite has on it, as closing any other
// descriptor of it would: open(2), O_PATH.
func holdFile(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH, 0)
}

// links returns the number of names that a file has: 0 if it was deleted.
func links(file *os.File) uint64 {
	info, err := file.Stat()
	if err != nil {
		return 1
	}
	return uint64(info.Sys().(*syscall.Stat_t).Nlink)
}
