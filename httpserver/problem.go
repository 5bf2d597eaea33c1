package httpserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// problem is an error as programs read it: https://www.rfc-editor.org/rfc/rfc9457
type problem struct {
	Title  string `json:"title"` // of the status
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // what happened here, and what helps
}

// Problem answers with an error, as application/problem+json or, where a browser
// asks for one, as a page. The detail is for the sender of the request.
func Problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	p := problem{Title: http.StatusText(status), Status: status, Detail: detail}
	if wantsPage(r) {
		show(w, status, "problem.html", p)
		return
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // two texts and a number are always JSON
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// wantsPage reports whether a browser will show the answer as a page. Requests of
// scripts and programs accept anything.
func wantsPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}
