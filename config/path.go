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
	if m.path == "database" {
		var ok bool
		if written, ok = d.database(written, line); !ok {
			return
		}
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

// database returns the database that is written on a line of the file, or where line is 0 the one
// of the environment. It reports an address that is none of a PostgreSQL database: no file has
// such a name. DATABASE_URL may be meant for another program, unless it names PostgreSQL.
func (d *decoder) database(written string, line int) (database string, ok bool) {
	const name = "DATABASE_URL"
	const allowed = `the path of a file, or the URL of a PostgreSQL database such as "postgres://parley@db.example.com/parley"`
	if line > 0 {
		if strings.Contains(written, "://") && !isDatabaseURL(written) {
			d.problem(Problem{Line: line, Key: "database", Found: describe(written), Allowed: allowed})
			return "", false
		}
		if isDatabaseURL(d.getenv(name)) {
			d.notUsed("database", name, written)
		}
		return written, true
	}
	url := strings.TrimSpace(d.getenv(name))
	switch {
	case isDatabaseURL(url):
		d.origins["database"] = Origin{Text: fromEnvironment + name}
		return url, true
	case strings.HasPrefix(strings.ToLower(url), "postgres"):
		d.problem(Problem{File: "environment", Key: name, Found: describe(url), Allowed: `a URL such as "postgres://parley@db.example.com/parley"`})
		return "", false
	}
	return written, true
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
