package httpserver

import (
	"context"
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

// ProblemWriter answers a request with an error. The detail is for its sender.
type ProblemWriter func(w http.ResponseWriter, status int, detail string)

type problemWriterKey struct{}

// problemsUnder has the writer for the errors of the paths below a prefix.
type problemsUnder struct {
	prefix string
	write  ProblemWriter
}

// ProblemsUnder makes the server write its own errors below a path in another form,
// also those of requests that reach no handler. The prefix ends with a slash. It must
// be called before Run.
func (s *Server) ProblemsUnder(prefix string, write ProblemWriter) {
	s.problems = append(s.problems, problemsUnder{prefix, write})
}

// withProblems returns the request with the form of errors that its path asks for.
func (s *Server) withProblems(r *http.Request) *http.Request {
	for _, p := range s.problems {
		if strings.HasPrefix(r.URL.Path, p.prefix) {
			return r.WithContext(context.WithValue(r.Context(), problemWriterKey{}, p.write))
		}
	}
	return r
}

// Problem answers with an error, as application/problem+json or, where a browser
// asks for one, as a page, or as ProblemsUnder says. The detail is for the sender of
// the request.
func Problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if write, ok := r.Context().Value(problemWriterKey{}).(ProblemWriter); ok {
		write(w, status, detail)
		return
	}
	p := problem{Title: http.StatusText(status), Status: status, Detail: detail}
	if WantsPage(r) {
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

// WantsPage reports whether a browser will show the answer as a page. Requests of
// scripts and programs accept anything.
func WantsPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}
