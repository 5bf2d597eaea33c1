package httpserver

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Access selects who may use a route. With AuthNone, every client on the
// server's own machine counts as signed in.
type Access int

const (
	// Public lets everybody in.
	Public Access = iota

	// Program lets in clients that send the token as "Authorization: Bearer
	// TOKEN", and the pages of people who are signed in. Others get 401.
	Program

	// Person lets in people who are signed in. Others are asked to sign in.
	Person
)

// route holds the access rules of a pattern.
type route struct {
	maxBody int64                    // most bytes of a request's body
	known   func(*http.Request) bool // see KnownBy; nil: nobody is
	signIn  bool                     // open to strangers at any time, since they sign in here
}

// visitor identifies the sender of a request.
type visitor struct {
	signedIn bool
	byToken  bool   // the request itself carries the token; with AuthNone, any
	keys     *keys  // the keys with which the token or the pass was checked
	pass     string // value of the browser's sign-in cookie, see keys; "" if it has none
}

type visitorKey struct{}

func visitorOf(r *http.Request) visitor {
	v, _ := r.Context().Value(visitorKey{}).(visitor)
	return v
}

// SignedIn reports whether the sender of the request may see everything. It is
// for Public routes.
func SignedIn(r *http.Request) bool { return visitorOf(r).signedIn }

// guard passes to h only the requests that access allows.
func (s *Server) guard(access Access, route route, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access != Public && !s.isMe(r) {
			Problem(w, r, http.StatusMisdirectedRequest, "This server does not go by that name. It can be given further ones: hosts in the section [http].")
			return
		}
		if access != Public && s.open() && !isDirect(r) {
			Problem(w, r, http.StatusForbidden, `This gateway asks for no token (auth = "none" in the section [http]), so it answers only programs of its own machine, and nothing that a proxy passes on. Behind a proxy it needs auth = "token".`)
			return
		}
		v, ok := s.identify(w, r, route)
		if !ok || !s.mayEnter(w, r, access, v) {
			return
		}
		s.limitBody(w, r, route.maxBody)
		r, release := s.large.hold(r, route)
		defer release()
		if !isSafe(r) && !s.isSameOrigin(r) && !s.provesItself(v) {
			foreign(w, r)
			return
		}
		ctx, cancel := s.lifetime(r, v)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, visitorKey{}, v)))
	})
}

// identify returns who sent a request. It answers the request itself, and returns
// false, where the client sends too many or shows a wrong token. It does not look
// at the cookie after a wrong token.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, route route) (visitor, bool) {
	v := visitor{keys: s.keys()}
	token, byToken := bearer(r)
	v.byToken = byToken
	var pass string
	var err error
	if !s.open() && !byToken {
		pass, err = s.passOf(r, v.keys)
	}
	switch {
	case s.open():
		v.signedIn = s.isMe(r) && isDirect(r)
	case byToken && v.keys.isToken(token):
		v.signedIn = true
	case err != nil:
		s.log.Error("sign-in not checked", "error", err)
		Problem(w, r, http.StatusServiceUnavailable, "The gateway can't read at the moment who is signed in; its log says why.")
		return v, false
	case !byToken:
		v.pass, v.signedIn = pass, pass != ""
	default:
		if s.refuse(r) == http.StatusTooManyRequests {
			tooManyGuesses(w, r)
		} else {
			unauthorized(w, r, "The token is wrong.")
		}
		return v, false
	}
	limits := s.strangers
	if v.signedIn || route.known != nil && route.known(r) {
		limits = s.known
		if !s.leaving.Load() {
			w.Header().Del("Connection")
		}
	}
	if limits == s.strangers && route.signIn {
		return v, true
	}
	if !limits.allow(clientOf(s.address(r))) {
		tooMany(w, r)
		return v, false
	}
	return v, true
}

// mayEnter reports whether access lets the visitor in. If not, it answers how to
// get in.
func (s *Server) mayEnter(w http.ResponseWriter, r *http.Request, access Access, v visitor) bool {
	switch {
	case access == Public:
		return true
	case isForeignLoad(r) && !s.provesItself(v):
		// Its page could not read the answer, but learn from how long it takes.
		foreign(w, r)
	case v.signedIn:
		return true
	case access == Person && !isSafe(r):
		unauthorized(w, r, "You are not signed in any more. Load the page again, and sign in.")
	case access == Program:
		unauthorized(w, r, "Send the gateway's token: \"Authorization: Bearer TOKEN\". On the gateway's machine, `gateway token` prints it.")
	case r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// A browser keeps a strict cookie to itself when a link of another site
		// was followed, and sends it with what the answer makes it load.
		show(w, http.StatusOK, "again.html", nil)
	default:
		http.Redirect(w, r, "/signin?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	}
	return false
}

// provesItself reports whether the request carries the token, which no foreign
// page knows.
func (s *Server) provesItself(v visitor) bool { return v.byToken && !s.open() }

// lastUpdate is how long a stream may take for what it has still to send when the server closes.
const lastUpdate = 500 * time.Millisecond

type closingKey struct{}

// lifetime returns the context of a request. A stream ends with the server, or
// with the sign-in or token that has let it in; a request that changes something
// may finish. Follow learns from the context that the server closes, before it ends.
func (s *Server) lifetime(r *http.Request, v visitor) (context.Context, context.CancelFunc) {
	if !isSafe(r) {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), closingKey{}, s.closing.Done()))
	stop := context.AfterFunc(s.closing, func() { time.AfterFunc(lastUpdate, cancel) })
	remove := func() {}
	if v.signedIn && !s.open() {
		remove = s.streams.add(&stream{keys: v.keys, pass: v.pass, end: cancel})
	}
	return ctx, func() {
		remove()
		stop()
		cancel()
	}
}

// isSafe reports whether the method of a request changes nothing.
func isSafe(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// bearer returns the token of a request. Other authorization schemes are a
// proxy's.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

func unauthorized(w http.ResponseWriter, r *http.Request, detail string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	Problem(w, r, http.StatusUnauthorized, detail)
}

func foreign(w http.ResponseWriter, r *http.Request) {
	Problem(w, r, http.StatusForbidden, "The request comes from a page of another site.")
}

func tooManyGuesses(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "60")
	Problem(w, r, http.StatusTooManyRequests, "The token is wrong, and too many wrong ones have come from this address. The right one works at any time.")
}

func tooMany(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "10")
	Problem(w, r, http.StatusTooManyRequests, "Too many requests from this address. Try again in a moment.")
}
