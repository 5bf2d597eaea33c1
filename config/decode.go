package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// decoder fills a configuration struct from a document and collects every
// problem on the way. A key with a problem keeps its default.
type decoder struct {
	file     string // the configuration file, for problems and as the base of secret files
	getenv   func(string) string
	top      reflect.Value // the configuration struct, of which sections are parts
	origins  Origins
	problems Problems
}

// decode fills the struct that into points to. root is nil when there is no
// file. The error is Problems.
func decode(into any, root *node, file string, getenv func(string) string, origins Origins) error {
	d := &decoder{file: file, getenv: getenv, origins: origins, top: reflect.ValueOf(into).Elem()}
	d.section(d.top, "", root)
	d.references(root)
	if len(d.problems) == 0 {
		return nil
	}
	d.problems.sort()
	return d.problems
}

// section fills one struct. n is nil when the file has no such section; its
// secrets may still stand in the environment.
func (d *decoder) section(into reflect.Value, path string, n *node) {
	var given map[string]*node
	if n != nil {
		given = n.children
	}
	before := len(d.problems)
	members := membersOf(into, path)
	for _, m := range members {
		if given[m.name] != nil && !m.isSecret() {
			d.origins[m.path] = Origin{Text: fromFile, File: d.file, Line: given[m.name].line}
		}
		switch n := given[m.name]; {
		case m.isSection() && n != nil && !n.isTable():
			d.refuse(m.path, n, m.allowed())
		case m.isSection():
			d.section(m.value, m.path, n)
		case m.isNamed() && n != nil:
			d.named(m, n)
		case m.isListed() && n != nil:
			d.listed(m, n)
		case m.tag.Get("kind") == "file" && n != nil:
			d.readable(m, n)
		case m.isSecrets():
			d.secrets(m, n)
		case m.isIdentity() && n != nil:
			d.identity(m, n)
		case m.isSecret():
			d.secret(m, n, given[m.fileKey()])
		case m.isPath():
			d.path(m, n)
		case n != nil:
			d.key(m, n)
		case m.tag.Get("env") != "":
			d.environment(m)
		}
	}
	d.unknown(path, members, given)
	report, sound := d.reporter(path, n), len(d.problems) == before
	if section, ok := into.Interface().(keysChecked); ok {
		section.CheckKeys(report)
	}
	if section, ok := into.Interface().(checked); ok && sound {
		section.Check(report)
	}
}

// keysChecked is a section that also checks keys by themselves, beyond their types and tags. Keys with a problem
// have their defaults. It reports a problem with one of its keys; found and allowed are those of Problem.
type keysChecked interface {
	CheckKeys(report func(key, found, allowed string))
}

// checked is a section that also checks its keys against each other, which it does only if all of them were read.
type checked interface {
	Check(report func(key, found, allowed string))
}

// reporter returns the function by which a section reports problems.
func (d *decoder) reporter(path string, n *node) func(key, found, allowed string) {
	return func(key, found, allowed string) {
		p := Problem{Key: join(path, key), Found: found, Allowed: allowed}
		if variable, found := strings.CutPrefix(d.origins[p.Key].Text, fromEnvironment); found {
			p.File, p.Key = "environment", variable
		}
		if n != nil {
			p.Line = n.line
			for _, name := range []string{key + "_file", key} {
				if given := n.children[name]; given != nil {
					p.Line, p.Key = given.line, join(path, name)
				}
			}
		}
		d.problem(p)
	}
}

// named sets sections that have names of their own.
func (d *decoder) named(m member, n *node) {
	if !n.isTable() {
		d.refuse(m.path, n, m.allowed())
		return
	}
	sections := reflect.MakeMap(m.value.Type())
	for name, child := range n.children {
		path := join(m.path, name)
		if !child.isTable() {
			d.refuse(path, child, "a section ["+path+"]")
			continue
		}
		into := reflect.New(m.value.Type().Elem()).Elem()
		if section, ok := into.Addr().Interface().(interface{ SetDefaults() }); ok {
			section.SetDefaults()
		}
		if section, ok := into.Interface().(interface{ AllowedName(string) string }); ok {
			if allowed := section.AllowedName(name); allowed != "" {
				d.problem(Problem{Line: child.line, Key: path, Found: fmt.Sprintf("the name %q", clip(name)), Allowed: allowed})
			}
		}
		d.section(into, path, child)
		sections.SetMapIndex(reflect.ValueOf(name).Convert(m.value.Type().Key()), into)
	}
	if sections.Len() > 0 {
		m.value.Set(sections)
	}
}

// listed sets sections that stand in a list.
func (d *decoder) listed(m member, n *node) {
	if items, ok := n.value.([]any); n.tables == nil && (!ok || len(items) > 0) {
		d.refuse(m.path, n, m.allowed())
		return
	}
	list := reflect.MakeSlice(m.value.Type(), 0, len(n.tables))
	for i, table := range n.tables {
		into := reflect.New(m.value.Type().Elem()).Elem()
		d.section(into, fmt.Sprintf("%s[%d]", m.path, i), table)
		list = reflect.Append(list, into)
	}
	m.value.Set(list)
}

// readable sets the path of a file that is read while the gateway runs.
func (d *decoder) readable(m member, n *node) {
	problems := len(d.problems)
	if d.key(m, n); len(d.problems) > problems || m.value.String() == "" {
		return
	}
	name := d.besideFile(m.value.String())
	m.value.SetString(name)
	if _, err := os.ReadFile(name); err != nil {
		d.problem(Problem{Line: n.line, Key: m.path, Found: fmt.Sprintf("%q, which can't be read: %v", name, withoutPath(err)), Allowed: "the name of a file"})
	}
}

// key sets one key that is not a secret.
func (d *decoder) key(m member, n *node) {
	if m.value.Kind() == reflect.Slice {
		d.list(m, n)
		return
	}
	v, ok := convert(m, n.value)
	if !ok {
		d.refuse(m.path, n, m.allowed())
		return
	}
	m.value.Set(v)
}

// environment sets a key that the file leaves out to the text of its environment
// variable.
func (d *decoder) environment(m member) {
	name := m.tag.Get("env")
	text := strings.TrimSpace(d.getenv(name))
	if text == "" {
		return
	}
	v, ok := convert(m, text)
	if !ok {
		d.problem(Problem{File: "environment", Key: name, Found: describe(text), Allowed: m.allowed()})
		return
	}
	m.value.Set(v)
	d.origins[m.path] = Origin{Text: fromEnvironment + name}
}

// list sets a list of texts; each item that it does not take has a problem of its own.
func (d *decoder) list(m member, n *node) {
	items, ok := n.value.([]any)
	if !ok {
		d.refuse(m.path, n, m.allowed())
		return
	}
	list := reflect.MakeSlice(m.value.Type(), 0, len(items))
	for i, item := range items {
		if id, ok := item.(int64); ok && m.holdsIDs() {
			item = fmt.Sprint(id)
		}
		s, ok := item.(string)
		if !ok || !m.takesItem(s) {
			d.refuse(fmt.Sprintf("%s[%d]", m.path, i), &node{line: n.line, value: item}, m.allowed())
			continue
		}
		list = reflect.Append(list, reflect.ValueOf(s).Convert(m.value.Type().Elem()))
	}
	m.value.Set(list)
}

// unknown reports the names in a section that are not its members.
func (d *decoder) unknown(path string, members []member, given map[string]*node) {
	known := keys(members)
	for name, n := range given {
		if slices.Contains(known, name) {
			continue
		}
		found, allowed := "an unknown key", strings.Join(known, ", ")
		if n.isTable() {
			found = "an unknown section"
		}
		if hint := d.hint(path, name, members); hint != "" {
			found += fmt.Sprintf(" (did you mean %s?)", hint)
		}
		d.problem(Problem{Line: n.line, Key: join(path, name), Found: found, Allowed: allowed})
	}
}

// hint is the key that was probably meant: one of this section with a name
// like it, or else one of another section with the same name.
func (d *decoder) hint(path, name string, members []member) string {
	if near := nearest(name, keys(members)); near != "" {
		return join(path, near)
	}
	for _, m := range leaves(d.top, "") {
		if m.name == name {
			return m.path
		}
	}
	return ""
}

// refuse reports a value that its key does not take.
func (d *decoder) refuse(path string, n *node, allowed string) {
	d.problem(Problem{Line: n.line, Key: path, Found: describe(n.value), Allowed: allowed})
}

func (d *decoder) problem(p Problem) {
	if p.File == "" {
		p.File = d.file
	}
	d.problems = append(d.problems, p)
}
