package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// project is the root of the repository.
const project = "../.."

var (
	inBackquotes = regexp.MustCompile("`([^`]+)`")
	linkTarget   = regexp.MustCompile(`(?:\]\(|(?:src|href)=")([^)"\s]+)[)"]`)
	codeBlock    = regexp.MustCompile("(?ms)^```.*?^```$")
	noSlugLetter = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// projectFiles returns the paths of the project's files, without those that git and npm
// keep for themselves.
func projectFiles(t *testing.T) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(project), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.IsDir():
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tableRows returns the rows of the first table below a heading of a document, cell by
// cell.
func tableRows(t *testing.T, document, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(project, document))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", document, heading)
	}
	for line := range strings.Lines(section) {
		switch {
		case strings.HasPrefix(line, "| --- "):
		case strings.HasPrefix(line, "|"):
			rows = append(rows, strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "))
		case len(rows) > 0:
			return rows[1:] // without the header
		}
	}
	return rows
}

func quotedNames(text string) (names []string) {
	for _, match := range inBackquotes.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// The table of packages in docs/architecture.md has each package, and no other. A name
// after the first of a row may be relative to the first, or to its folder. Packages of
// test helpers, such as llm/llmtest, need not be listed.
func TestArchitectureListsEveryPackage(t *testing.T) {
	t.Parallel()
	packages := map[string]bool{} // true = listed
	for _, file := range projectFiles(t) {
		if path.Ext(file) == ".go" {
			packages[path.Dir(file)] = false
		}
	}
	for _, row := range tableRows(t, "docs/architecture.md", "## The packages") {
		var first string
		for i, cell := range row {
			for _, name := range quotedNames(cell) {
				if first == "" {
					first = name
				}
				candidates := []string{name, path.Join(first, name), path.Join(path.Dir(first), name)}
				known := slices.IndexFunc(candidates, func(dir string) bool { _, ok := packages[dir]; return ok })
				if known >= 0 {
					packages[candidates[known]] = true
				} else if i == 0 {
					t.Errorf("the table of packages in docs/architecture.md has %q, which is no package", name)
				}
			}
		}
	}
	for dir, listed := range packages {
		if !listed && !(strings.HasSuffix(dir, "test") && packages[path.Dir(dir)]) {
			t.Errorf("the table of packages in docs/architecture.md lacks %s", dir)
		}
	}
}

// Every Go file that docs/architecture.md names exists, and so does every folder in the
// table "Where to find it". A name without a folder may be in any.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	files := projectFiles(t)
	exists := func(pattern string) bool {
		return slices.ContainsFunc(files, func(file string) bool {
			for dir := file; dir != "."; dir = path.Dir(dir) {
				if ok, _ := path.Match(pattern, dir); ok {
					return true
				}
			}
			return false
		})
	}
	text, err := os.ReadFile(filepath.Join(project, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range quotedNames(codeBlock.ReplaceAllString(string(text), "")) {
		pattern := strings.ReplaceAll(name, "NAME", "*")
		if path.Ext(name) == ".go" && !exists(pattern) &&
			!slices.ContainsFunc(files, func(file string) bool { return path.Base(file) == name }) {
			t.Errorf("docs/architecture.md names %s, which does not exist", name)
		}
	}
	for _, row := range tableRows(t, "docs/architecture.md", "### Where to find it") {
		for _, name := range quotedNames(row[1]) {
			name = strings.ReplaceAll(name, "NAME", "*")
			if strings.Contains(name, "/") && !exists(name) {
				t.Errorf("%s: there is no %s", row[0], name)
			}
		}
	}
}

// Every relative link in a document leads to a file, and to a heading if it names one.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, file := range projectFiles(t) {
		if path.Ext(file) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(project, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkTarget.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			target, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, ":") || strings.HasPrefix(target, "/") {
				continue // another site, or a path of the gateway
			}
			if target == "" {
				target = file
			} else {
				target = path.Join(path.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(project, target)); err != nil {
				t.Errorf("%s links to %s: %v", file, link[1], err)
			} else if heading != "" && !slices.Contains(slugs(t, target), heading) {
				t.Errorf("%s links to %s, but that document has no such heading", file, link[1])
			}
		}
	}
}

// slugs returns the names by which links lead to the headings of a document.
func slugs(t *testing.T, document string) (slugs []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(project, document))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(codeBlock.ReplaceAllString(string(text), "")) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			slug := noSlugLetter.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			slugs = append(slugs, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return slugs
}
