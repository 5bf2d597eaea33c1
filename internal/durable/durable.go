// Package durable writes files that survive a power failure.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a file of mode 0600 that is complete whenever it is at path. fill writes its contents
// to a temporary file in the same folder, whose name is made from pattern as os.CreateTemp does. put
// gives that file the name path: os.Rename, or os.Link, which fails if path exists.
func WriteFile(path, pattern string, fill func(*os.File) error, put func(from, to string) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), pattern)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // os.Rename has moved it away
	if err = fill(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := put(file.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder syncs a folder, so that the names in it survive a power failure.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
