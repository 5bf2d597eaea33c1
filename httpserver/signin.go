package httpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func (s *Server) handleSignIn() {
	forStrangers := func(r *route) { r.signIn = true }
	s.Handle("GET /signin", Public, http.HandlerFunc(s.askForToken), forStrangers)
	s.Handle("POST /signin", Public, http.HandlerFunc(s.signIn), forStrangers, MaxBody(8<<10))
	s.Handle("GET "+linkPath, Public, http.HandlerFunc(askForCode), forStrangers)
	s.Handle("GET /signin.css", Public, http.HandlerFunc(part), forStrangers)
	s.Handle("GET /signin.js", Public, http.HandlerFunc(part), forStrangers)
	s.Handle("POST /signout", Person, http.HandlerFunc(s.signOut))
}

// linkPath is the path of links that sign in. The code follows a "#", which
// browsers do not send: a script of the page sends it in a form, so that no log,
// proxy or link preview sees it or uses it up.
const linkPath = "/signin/link"

// NewLinks returns links that sign one browser in, once, within codeFor: one for
// each address of the server. add stores the code in them.
func NewLinks(ctx context.Context, urls []string, add func(ctx context.Context, code string, lasts time.Duration) error) ([]string, error) {
	code := rand.Text()
	if err := add(ctx, hashed(code), codeFor); err != nil {
		return nil, err
	}
	var links []string
	for _, base := range urls {
		links = append(links, strings.TrimSuffix(base, "/")+linkPath+"#"+code)
	}
	return links, nil
}

// signInPage is the data of the sign-in page.
type signInPage struct {
	Next    string // where to go on
	Problem string
	Link    bool // the page of a link, whose code is not known here
}

func (s *Server) askForToken(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if SignedIn(r) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	show(w, http.StatusOK, "signin.html", signInPage{Next: next})
}

// signIn exchanges the token for a pass.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		BodyProblem(w, r, err)
		return
	}
	page := signInPage{Next: local(r.PostFormValue("next"))}
	if s.open() {
		http.Redirect(w, r, page.Next, http.StatusSeeOther)
		return
	}
	token, code, keys := strings.TrimSpace(r.PostFormValue("token")), strings.TrimSpace(r.PostFormValue("code")), s.keys()
	until := s.now().Add(passFor)
	pass := keys.issue(until)
	in, err := keys.isToken(token), error(nil)
	if in {
		err = s.signIns.Add(r.Context(), hashed(pass), until)
	} else {
		in, err = s.signIns.Redeem(r.Context(), hashed(cmp.Or(code, token)), hashed(pass), until)
	}
	if err != nil {
		s.log.Error("sign-in not stored", "error", err)
		Problem(w, r, http.StatusServiceUnavailable, "The sign-in can't be stored at the moment; the gateway's log says why. Try again.")
		return
	}
	if in {
		s.setPass(w, r, keys, pass)
		http.Redirect(w, r, page.Next, http.StatusSeeOther)
		return
	}
	status := s.refuse(r)
	page.Problem = "That is not the gateway's token."
	if code != "" {
		page.Problem = "This link has been used already, is too old, or was made before the gateway was restarted."
	}
	if status == http.StatusTooManyRequests {
		page.Problem += " Too many wrong ones have come from your address; a right one works nevertheless."
	}
	show(w, status, "signin.html", page)
}

// signOut ends the sign-in for good: a copy of the cookie is worth nothing
// either.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	v := visitorOf(r)
	if v.pass != "" {
		if err := s.signIns.End(r.Context(), hashed(v.pass)); err != nil {
			s.log.Error("sign-out not stored", "error", err)
			Problem(w, r, http.StatusServiceUnavailable, "The sign-out can't be stored at the moment, so you are still signed in; the gateway's log says why. Try again.")
			return
		}
		s.seen.note(hashed(v.pass), false)
		s.streams.endIf(func(one *stream) bool { return one.pass == v.pass })
	}
	s.setPass(w, r, v.keys, "")
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

// local returns next if it is a path of this server, otherwise "/".
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	return next
}

// askForCode shows the page whose script sends the code of a link.
func askForCode(w http.ResponseWriter, _ *http.Request) {
	show(w, http.StatusOK, "signin.html", signInPage{Next: "/", Link: true})
}

// part serves the parts of the page, by the name at the end of its path.
func part(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=3600")
	http.ServeFileFS(w, r, files, "html"+r.URL.Path)
}
