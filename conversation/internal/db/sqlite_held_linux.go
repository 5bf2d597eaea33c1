package db

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// holdFile opens a file with O_PATH, see open(2): it can be neither read nor written.
// Closing any other kind of descriptor would drop the locks that SQLite has on the file.
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
