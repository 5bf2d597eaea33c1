package httpserver

import (
	"net/http"
	"net/url"
	"strings"
)

func (s *Server) handleSignIn() {
	s.Handle("GET /signin", Public, http.HandlerFunc(s.askForToken))
	s.Handle("POST /signin", Public, http.HandlerFunc(s.signIn), MaxBody(8<<10))
	s.Handle("POST /signout", Person, http.HandlerFunc(s.signOut))
	s.Handle("GET /signin.css", Public, http.HandlerFunc(style))
}

// signInPage is what the page of that name shows.
type signInPage struct {
	Next    string // where to go on
	Problem string
}

func (s *Server) askForToken(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if SignedIn(r) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	show(w, http.StatusOK, "signin.html", signInPage{Next: next})
}

// signIn trades the token for a pass. Who guesses wrong too often has to wait,
// with a right token as well.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		BodyProblem(w, r, err)
		return
	}
	client, page := s.client(r), signInPage{Next: local(r.PostFormValue("next"))}
	right, told := s.guessers.guess(client, func() bool {
		return s.passes.open || s.passes.isToken(strings.TrimSpace(r.PostFormValue("token")))
	})
	switch {
	case !told:
		page.Problem = "That was wrong too often. Wait a minute, then try again."
		show(w, http.StatusTooManyRequests, "signin.html", page)
	case !right:
		s.log.Warn("somebody tried to sign in with a wrong token", "address", client.Addr())
		page.Problem = "That is not the gateway's token."
		show(w, http.StatusUnauthorized, "signin.html", page)
	default:
		s.setPass(w, r, s.passes.issue())
		http.Redirect(w, r, page.Next, http.StatusSeeOther)
	}
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	s.setPass(w, r, "")
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

// local is a path of this server, "/" in place of anything that leads
// elsewhere.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	return next
}

func style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=3600")
	http.ServeFileFS(w, r, files, "html/signin.css")
}
