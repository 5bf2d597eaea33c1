package httpserver

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"sync"
)

//go:embed html
var files embed.FS

// templates are parsed when the first page is asked for.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(files, "html/*.html"))
})

// show answers with one of the server's own pages.
func show(w http.ResponseWriter, status int, name string, data any) {
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, name, data); err != nil {
		panic(err) // the pages are part of the program
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a client that is gone needs no answer
}
