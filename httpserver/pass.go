package httpserver

import (
	"context"
	"net/http"
	"time"
)

// passFor is how long a sign-in lasts, and codeFor how long a code that signs
// one browser in is good.
const (
	passFor = 30 * 24 * time.Hour
	codeFor = 10 * time.Minute
)

// SignIns keeps who is signed in, over restarts: ids of browsers, and codes
// that sign one in, all of them as hashes.
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

// passOf is the pass that a request shows and that holds, "" when there is
// none. Other programs of this host can have the browser send cookies of the
// same name. The error is that of the store.
func (s *Server) passOf(r *http.Request, k *keys) (string, error) {
	for _, cookie := range r.CookiesNamed(s.cookieName(r, k)) {
		if !k.valid(cookie.Value, s.now()) {
			continue
		}
		if s.open() {
			return cookie.Value, nil
		}
		if has, err := s.signIns.Has(r.Context(), hashed(cookie.Value)); has || err != nil {
			return cookie.Value, err
		}
	}
	return "", nil
}

// setPass hands a pass to the browser, or with "" takes it back.
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
