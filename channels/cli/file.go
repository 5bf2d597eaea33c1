package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"parley/channels"
)

// maxSame is how many files of one name get numbers.
const maxSame = 100

// save writes a file into a folder, beside those that exist already, and returns where,
// or why it could not.
func save(folder string, file *channels.File) string {
	name := filepath.Base(filepath.Clean("/" + file.Name))
	end := filepath.Ext(name)
	for n := 1; n <= maxSame; n++ {
		path := filepath.Join(folder, name)
		if n > 1 {
			path = filepath.Join(folder, fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, end), n, end))
		}
		err := create(path, file.Data)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Sprintf("The file can't be written: %v", err)
		}
		if whole, err := filepath.Abs(path); err == nil {
			path = whole
		}
		if file.Picture != nil {
			return "The picture is `" + path + "`"
		}
		return "The file is `" + path + "`"
	}
	return fmt.Sprintf("The file can't be written: there are %d of the name %s already", maxSame, name)
}

// create writes a new file that only its owner may read: it holds what people say
// in private.
func create(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
