// Package pages has what the gateway's pages share: the frame of a page, its styles
// and scripts, and markdown as safe HTML. Everything is loaded with the first
// request.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"net/http"
	"sync"
	"time"
)

//go:embed templates
var shared embed.FS

// Frame is everything of a page but its body.
type Frame struct {
	Title   string   // title of the browser's tab
	Section string   // the part of the gateway that the page is of, a class of its body
	Styles  []string // names of assets, beside base.css
	Scripts []string // names of assets that are modules
	Body    any      // for the template "body"
}

// Set holds the templates of one part of the gateway: the shared ones, those at
// the top of its folder, and a page for each file of its folder "pages", which
// defines "body" and may define "head".
type Set struct {
	files fs.FS
	extra template.FuncMap
	load  func() loaded
}

type loaded struct {
	fragments *template.Template
	pages     map[string]*template.Template // by the name of the file, such as "chat.html"
}

// NewSet returns the set of the templates in files. They are parsed at the first
// use; a mistake in one panics then, and so in every test.
func NewSet(files fs.FS, extra template.FuncMap) *Set {
	s := &Set{files: files, extra: extra}
	s.load = sync.OnceValue(s.parse)
	return s
}

func (s *Set) parse() loaded {
	root := template.Must(template.New("").Funcs(functions()).Funcs(s.extra).ParseFS(shared, "templates/*.html"))
	if own, _ := fs.Glob(s.files, "*.html"); len(own) > 0 {
		template.Must(root.ParseFS(s.files, "*.html"))
	}
	names, err := fs.Glob(s.files, "pages/*.html")
	if err != nil {
		panic(err) // a malformed pattern, and it is the one above
	}
	all := loaded{fragments: root, pages: map[string]*template.Template{}}
	for _, name := range names {
		page := template.Must(template.Must(root.Clone()).ParseFS(s.files, name))
		all.pages[name[len("pages/"):]] = page
	}
	return all
}

// Page answers a request with a page, named by its file. On an error the page
// could not be rendered and nothing was written.
func (s *Set) Page(w http.ResponseWriter, status int, name string, frame Frame) error {
	page, known := s.load().pages[name]
	if !known {
		return fmt.Errorf("no page is called %q", name)
	}
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, "frame", frame); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a browser that went away misses nothing
	return nil
}

// Fragment renders one of the set's templates.
func (s *Set) Fragment(name string, data any) (template.HTML, error) {
	var out bytes.Buffer
	if err := s.load().fragments.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("template %s: %w", name, err)
	}
	return template.HTML(out.String()), nil
}

// functions returns what all templates may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"answer":   Answer,
		"thought":  answerHTML,
		"asset":    URL,
		"code":     Code,
		"icon":     icon,
		"markdown": Markdown,
		"moment":   func(t time.Time) template.HTML { return Moment(t, time.Now()) },
	}
}

// Moment returns a time in the shortest form that is clear at the time now.
func Moment(t, now time.Time) template.HTML {
	layout := "2 Jan 2006"
	switch t = t.In(now.Location()); {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		layout = "15:04"
	case t.Year() == now.Year():
		layout = "2 Jan"
	}
	return Time(t, "moment", t.Format(layout))
}

// Time returns a time as HTML, with the full time for machines and as a tooltip. The
// script time.js shows it in the browser's zone, in one of the forms that it has; the
// text is what stands there without scripts, and must not come from people.
func Time(t time.Time, form, text string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-form="%s">%s</time>`,
		t.Format(time.RFC3339), t.Format("Monday, 2 January 2006, 15:04:05"), form, text))
}

// WaitBlock returns words that tell of a wait, and the time that is left of it, as a block of an answer.
// The script time.js counts down to its end.
func WaitBlock(words string, left time.Duration) string {
	seconds, text := max(0, int(math.Ceil(left.Seconds()))), "now"
	switch {
	case seconds == 1:
		text = "in 1 second"
	case seconds > 1:
		text = fmt.Sprintf("in %d seconds", seconds)
	}
	return fmt.Sprintf(`<p>%s <time datetime="PT%dS" data-form="left">%s</time>.</p>`, template.HTMLEscapeString(words), seconds, text)
}
