package telegramtest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Poll is a getUpdates of a program that uses URLFor.
type Poll struct {
	Program string
	Offset  int64
	At      time.Time
}

// programHeader holds the name of the program that sent a request, as URLFor has it.
const programHeader = "X-Telegramtest-Program"

// URLFor returns an api_url under which the server knows a program by a name, see Polls.
func (s *Server) URLFor(program string) string { return s.URL + "/program/" + program }

// nameProgram moves the name of the program from the path into a header.
func nameProgram(r *http.Request) {
	rest, named := strings.CutPrefix(r.URL.Path, "/program/")
	if !named {
		return
	}
	program, path, _ := strings.Cut(rest, "/")
	r.URL.Path = "/" + path
	r.Header.Set(programHeader, program)
}

// notePoll keeps when a program asked for which updates.
func (s *Server) notePoll(r *http.Request, p map[string]string) {
	program := r.Header.Get(programHeader)
	if program == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = append(s.polls, Poll{Program: program, Offset: integer(p, "offset", 0), At: time.Now()})
	s.changed.Broadcast()
}

// WaitPolls waits until done is true of what Polls returns.
func (s *Server) WaitPolls(ctx context.Context, what string, done func([]Poll) bool) error {
	return s.wait(ctx, what, func() bool { return done(s.polls) })
}

// Polls returns what programs have asked for with getUpdates, in order.
func (s *Server) Polls() []Poll {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.polls)
}
