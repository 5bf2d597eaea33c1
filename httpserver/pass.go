package httpserver

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
)

// passFor is how long a sign-in lasts.
const passFor = 30 * 24 * time.Hour

// passes are what browsers show instead of the token: a cookie that says until
// when it holds, signed with a key made from the token. So nothing is kept
// here, a restart signs nobody out, and another token signs everybody out.
type passes struct {
	token [sha256.Size]byte // the hash, so that comparing takes the same time for every length
	open  bool              // there is no token: who reaches the server is signed in
	key   []byte
	now   func() time.Time
}

func newPasses(token string, now func() time.Time) passes {
	if now == nil {
		now = time.Now
	}
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "parley http passes", sha256.Size)
	if err != nil {
		panic(err) // only for a key that is longer than 255 hashes
	}
	return passes{token: sha256.Sum256([]byte(token)), open: token == "", key: key, now: now}
}

// isToken compares in constant time.
func (p passes) isToken(text string) bool {
	hash := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(hash[:], p.token[:]) == 1
}

// A pass is the second at which it ends, 16 random bytes and the signature of
// both, as base64.
const (
	signedLen = 8 + 16
	passLen   = signedLen + sha256.Size
)

func (p passes) issue() string {
	pass := make([]byte, signedLen, passLen)
	binary.BigEndian.PutUint64(pass, uint64(p.now().Add(passFor).Unix()))
	_, _ = rand.Read(pass[8:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(append(pass, p.sign("pass", pass)...))
}

// valid reports whether the pass was issued here and still holds.
func (p passes) valid(text string) bool {
	pass, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(pass) != passLen {
		return false
	}
	signed := pass[:signedLen]
	return hmac.Equal(pass[signedLen:], p.sign("pass", signed)) &&
		p.now().Unix() < int64(binary.BigEndian.Uint64(signed))
}

// csrf is what a form of the pass's owner carries, which no other site knows.
func (p passes) csrf(pass string) string {
	return base64.RawURLEncoding.EncodeToString(p.sign("csrf", []byte(pass)))
}

func (p passes) sign(use string, text []byte) []byte {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(use + "\x00"))
	mac.Write(text)
	return mac.Sum(nil)
}

// cookieName has the prefix that lets a browser take the cookie over TLS only,
// and from this very host: https://www.rfc-editor.org/rfc/rfc6265bis
func cookieName(secure bool) string {
	if secure {
		return "__Host-parley"
	}
	return "parley"
}

// passOf is the valid pass that a request shows, "" when there is none. Other
// programs of this host can have the browser send cookies of the same name.
func (s *Server) passOf(r *http.Request) string {
	for _, cookie := range r.CookiesNamed(cookieName(s.secure(r))) {
		if s.passes.valid(cookie.Value) {
			return cookie.Value
		}
	}
	return ""
}

// setPass hands a pass to the browser, or with "" takes it back.
func (s *Server) setPass(w http.ResponseWriter, r *http.Request, pass string) {
	cookie := &http.Cookie{
		Name: cookieName(s.secure(r)), Value: pass, Path: "/", MaxAge: int(passFor / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure(r),
	}
	if pass == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
