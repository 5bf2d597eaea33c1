package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"unicode"
)

// secret sets a secret from the first that is not empty: its key, the file
// that its _file key names, its environment variable. Key and _file together
// are a problem.
func (d *decoder) secret(m member, key, file *node) {
	text, ok := d.secretText(m.path, key)
	fileName, fileOK := d.secretText(m.path+"_file", file)
	variable := m.tag.Get("env")
	switch {
	case !ok || !fileOK:
	case text != "" && fileName != "":
		d.problem(Problem{Line: file.line, Key: m.path + "_file",
			Found: fmt.Sprintf("both %s (line %d) and %s", m.name, key.line, m.fileKey()), Allowed: "one of the two"})
	case text != "":
		d.setSecret(m, Problem{Line: key.line, Key: m.path, Allowed: m.allowed()}, text, Origin{Text: fromFile, File: d.file, Line: key.line})
	case fileName != "":
		d.secretFile(m, file.line, fileName)
	case variable != "":
		d.setSecret(m, Problem{File: "environment", Key: variable, Allowed: m.allowed()}, d.getenv(variable), Origin{Text: fromEnvironment + variable})
	}
	if set := m.value.String(); set != "" && variable != "" {
		d.notUsed(m.path, variable, set)
	}
}

// secrets sets texts by name. NAME_file beside them, or in place of NAME, names the file that
// holds the text.
func (d *decoder) secrets(m member, n *node) {
	if n == nil {
		return
	}
	if !n.isTable() {
		d.problem(Problem{Line: n.line, Key: m.path, Found: "a value that is not a section", Allowed: m.allowed()})
		return
	}
	texts := map[string]string{}
	for _, key := range inOrder(n.children) {
		path, given := join(m.path, key), n.children[key]
		text, ok := d.secretText(path, given)
		name, isFile := strings.CutSuffix(key, "_file")
		switch {
		case !ok:
		case !isFile:
			texts[key] = text
		case n.children[name] != nil:
			d.problem(Problem{Line: given.line, Key: path, Found: fmt.Sprintf("both %s (line %d) and %s", name, n.children[name].line, key), Allowed: "one of the two"})
		default:
			held, p := d.readSecret(name, text)
			if p.Found != "" {
				p.Line, p.Key = given.line, path
				d.problem(p)
				continue
			}
			texts[name] = held
			d.origins[m.path] = Origin{Text: "the file of " + key, File: d.besideFile(text)}
		}
	}
	if len(texts) > 0 {
		m.value.Set(reflect.ValueOf(texts))
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
// configuration file.
func (d *decoder) secretFile(m member, line int, name string) {
	text, p := d.readSecret(m.name, name)
	p.Line, p.Key = line, m.path+"_file"
	if p.Found != "" {
		d.problem(p)
		return
	}
	d.setSecret(m, p, text, Origin{Text: "the file of " + m.fileKey(), File: d.besideFile(name)})
}

// maxSecret is how many bytes the file of a secret may have.
const maxSecret = 64 << 10

// readSecret returns what a file holds that the configuration names for a key. If p.Found is not
// empty, p says why the file can't be read and what to do, without its line and key.
func (d *decoder) readSecret(key, name string) (text string, p Problem) {
	p.Allowed = "the name of a file that holds " + key + " and nothing else"
	path, err := filepath.Abs(d.besideFile(name))
	if err != nil {
		path = d.besideFile(name)
	}
	f, err := os.Open(path)
	var held []byte
	if err == nil {
		defer f.Close()
		held, err = io.ReadAll(io.LimitReader(f, maxSecret+1))
	}
	text = clean(string(held))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isFileName(name, path):
		p.Found = "the name of a file that does not exist; it is not repeated here, since it may be the secret itself"
		p.Allowed += fmt.Sprintf(", or %s with the secret itself", key)
	case errors.Is(err, fs.ErrNotExist):
		p.Found = path + ", which does not exist"
		p.Allowed += "; make that file, or correct the name, which is relative to the folder of the configuration file"
	case errors.Is(err, fs.ErrPermission):
		p.Found = path + ", which can't be read: permission denied"
		p.Allowed += ", readable by the user who runs the gateway"
	case err != nil && !isThere(path): // a name that no file can have
		p.Found = "the name of a file that can't be read: " + withoutPath(err).Error()
	case err != nil:
		p.Found = path + ", which can't be read: " + withoutPath(err).Error()
	case len(held) > maxSecret:
		p.Found = path + ", which is larger than 64 KiB"
	case text == "":
		p.Found = path + ", which is empty"
	}
	return text, p
}

// plainName matches names of files that no secret looks like: those have capital letters, or
// neither a dot nor a slash.
var plainName = regexp.MustCompile(`^[a-z0-9_~-]*[./][a-z0-9_~./-]*$`)

// isFileName reports whether the name of a file that does not exist may be shown: people write
// the secret itself in its place.
func isFileName(name, path string) bool {
	return plainName.MatchString(name) || strings.Contains(name, "/") && isThere(filepath.Dir(path))
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
