package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// secret sets a secret from the first that is not empty: its key, the file
// that its _file key names, its environment variable. Key and _file together
// are a problem.
func (d *decoder) secret(m member, key, file *node) {
	text, ok := d.secretText(m.path, key)
	fileName, fileOK := d.secretText(m.path+"_file", file)
	switch {
	case !ok || !fileOK:
	case text != "" && fileName != "":
		d.problem(Problem{Line: file.line, Key: m.path + "_file",
			Found: fmt.Sprintf("both %s (line %d) and %s", m.name, key.line, m.fileKey()), Allowed: "one of the two"})
	case text != "":
		d.setSecret(m, Problem{Line: key.line, Key: m.path, Allowed: m.allowed()}, text, Origin{fromFile, d.file})
	case fileName != "":
		d.secretFile(m, file.line, fileName)
	case m.tag.Get("env") != "":
		d.setSecret(m, Problem{File: "environment", Key: m.tag.Get("env"), Allowed: m.allowed()}, d.getenv(m.tag.Get("env")), Origin{Text: "environment " + m.tag.Get("env")})
	}
}

// secretText returns the text of a node, "" when there is no node. It reports another
// value by its type alone, since it may be the secret.
func (d *decoder) secretText(path string, n *node) (string, bool) {
	if n == nil {
		return "", true
	}
	s, ok := n.value.(string)
	if !ok {
		d.problem(Problem{Line: n.line, Key: path, Found: "a value that is not a text", Allowed: `text in quotes: "..."`})
	}
	return strings.TrimSpace(s), ok
}

// secretFile sets a secret to what a file holds. The name is relative to the
// configuration file and not repeated in a problem: people write the secret
// itself there.
func (d *decoder) secretFile(m member, line int, name string) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(d.file), name)
	}
	p := Problem{Line: line, Key: m.path + "_file", Allowed: "the name of a file that holds " + m.name + " and nothing else"}
	text, err := readSecret(name)
	if err != nil {
		p.Found = "a file that can't be read: " + err.Error()
		d.problem(p)
		return
	}
	if clean(text) == "" {
		p.Found = "an empty file"
		d.problem(p)
		return
	}
	d.setSecret(m, p, text, Origin{"the file of " + m.fileKey(), name})
}

// readSecret reads a small file. The error does not have its name.
func readSecret(name string) (string, error) {
	const limit = 64 << 10
	f, err := os.Open(name)
	if err != nil {
		return "", withoutPath(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", withoutPath(err)
	}
	if len(text) > limit {
		return "", errors.New("it is larger than 64 KiB")
	}
	return string(text), nil
}

func withoutPath(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// setSecret sets a secret that can stand in an HTTP header or an address; p is
// the problem with any other, but for what was found.
func (d *decoder) setSecret(m member, p Problem, text string, origin Origin) {
	text = clean(text)
	for _, r := range text {
		if r > unicode.MaxASCII || unicode.IsSpace(r) || unicode.IsControl(r) {
			p.Found = fmt.Sprintf("a secret with %s in it", nameOf(r))
			d.problem(p)
			return
		}
	}
	if text != "" {
		d.origins[m.path] = origin
	}
	m.value.SetString(text)
}

func nameOf(r rune) string {
	names := map[rune]string{' ': "a space", '\n': "a line break", '\t': "a tab", '\r': "a carriage return"}
	return cmp.Or(names[r], "a character that is not printable ASCII")
}

// clean removes what editors and shells leave around a secret: a byte order mark,
// spaces and line breaks.
func clean(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "\ufeff"))
}
