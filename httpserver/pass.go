package httpserver

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// passFor is how long a sign-in lasts, and codeFor how long a code that signs
// one browser in is good.
const (
	passFor = 30 * 24 * time.Hour
	codeFor = 10 * time.Minute
)

// SignIns stores who is signed in: ids of browsers, and codes that sign one in,
// all of them as hashes.
type SignIns interface {
	Add(ctx context.Context, id string, until time.Time) error
	Has(ctx context.Context, id string) (bool, error)
	End(ctx context.Context, id string) error

	// Redeem takes a code, which is good once, and adds the id with it.
	Redeem(ctx context.Context, code, id string, until time.Time) (bool, error)
}

// cookieName has the prefix that lets a browser take the cookie over TLS only,
// and from this very host: https://www.rfc-editor.org/rfc/rfc6265bis
func (s *Server) cookieName(r *http.Request, k *keys) string {
	if s.secure(r) {
		return "__Host-" + k.cookie
	}
	return k.cookie
}

// passOf returns the valid pass of a request, "" when there is none. Other
// programs of this host can make the browser send cookies of the same name. The
// error is the store's.
func (s *Server) passOf(r *http.Request, k *keys) (string, error) {
	for _, cookie := range r.CookiesNamed(s.cookieName(r, k)) {
		if !k.valid(cookie.Value, s.now()) {
			continue
		}
		if has, err := s.isSignedIn(r.Context(), cookie.Value); has || err != nil {
			return cookie.Value, err
		}
	}
	return "", nil
}

// isSignedIn reports whether a pass is still signed in. While the store can't be
// read, it repeats the last result for the pass: its owner may want to look at
// what is wrong.
func (s *Server) isSignedIn(ctx context.Context, pass string) (bool, error) {
	id := hashed(pass)
	has, err := s.signIns.Has(ctx, id)
	switch {
	case err == nil:
		s.seen.note(id, has)
	case ctx.Err() == nil && s.seen.has(id):
		return true, nil
	}
	return has, err
}

// seen remembers which ids of browsers were signed in when the store was last
// read.
type seen struct {
	mu  sync.Mutex
	ids map[string]bool
}

// maxSeen is how many ids are remembered, with some 100 bytes each.
const maxSeen = 1000

func (s *seen) note(id string, signedIn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.ids[id]
	if !known && len(s.ids) >= maxSeen || s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[id] = signedIn && (before || !known) // a result that was read before a sign-out may be noted after it
}

func (s *seen) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// setPass sets the cookie with a pass, or removes it for "".
func (s *Server) setPass(w http.ResponseWriter, r *http.Request, k *keys, pass string) {
	cookie := &http.Cookie{
		Name: s.cookieName(r, k), Value: pass, Path: "/", MaxAge: int(passFor / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure(r),
	}
	if pass == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
