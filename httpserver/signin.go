package httpserver

import (
	"net/http"
	"net/url"
	"strings"
)

func (s *Server) handleSignIn() {
	forStrangers := func(r *route) { r.signIn = true }
	s.Handle("GET /signin", Public, http.HandlerFunc(s.askForToken), forStrangers)
	s.Handle("POST /signin", Public, http.HandlerFunc(s.signIn), forStrangers, MaxBody(8<<10))
	s.Handle("GET /signin.css", Public, http.HandlerFunc(style), forStrangers)
	s.Handle("POST /signout", Person, http.HandlerFunc(s.signOut))
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

// signIn trades the token for a pass.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		BodyProblem(w, r, err)
		return
	}
	page := signInPage{Next: local(r.PostFormValue("next"))}
	if s.passes.open || s.passes.isToken(strings.TrimSpace(r.PostFormValue("token"))) {
		s.setPass(w, r, s.passes.issue())
		http.Redirect(w, r, page.Next, http.StatusSeeOther)
		return
	}
	status := s.refuse(r)
	page.Problem = "That is not the gateway's token."
	if status == http.StatusTooManyRequests {
		page.Problem += " Too many wrong ones have come from your address; the right one works nevertheless."
	}
	show(w, status, "signin.html", page)
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
