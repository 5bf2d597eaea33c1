package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// path sets the path of a file. A relative one, as written or by default, is relative to
// the folder of the configuration file.
func (d *decoder) path(m member, n *node) {
	line := 0
	if n != nil {
		line = n.line
		problems := len(d.problems)
		if d.key(m, n); len(d.problems) > problems {
			return
		}
	}
	written := m.value.String()
	if url := d.getenv("DATABASE_URL"); n == nil && m.path == "database" && isDatabaseURL(url) {
		written = url
	}
	if written == "" || isDatabaseURL(written) {
		m.value.SetString(written)
		return
	}
	found := d.besideFile(written)
	if found != written && !exists(found) && exists(written) {
		here, _ := filepath.Abs(written) // without it the sentence says less
		d.problem(Problem{Line: line, Key: m.path,
			Found:   fmt.Sprintf("%q (string), which is relative to this file: there is no %s, but %s exists", written, found, here),
			Allowed: fmt.Sprintf("%s = %q, if that is the one; earlier versions looked for it in the working folder", m.name, here)})
		return
	}
	m.value.SetString(found)
}

// isDatabaseURL reports whether a text names a PostgreSQL database, not a file.
func isDatabaseURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// besideFile returns a path that is relative to the folder of the configuration file.
func (d *decoder) besideFile(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.file), name)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
