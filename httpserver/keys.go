package httpserver

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// keys are derived from the token, each for one use. Another token gives other
// keys.
type keys struct {
	secret string
	token  [sha256.Size]byte // the hash, so that comparing takes the same time for every length
	pass   []byte
	cookie string // name of the cookie, by which several gateways of a machine leave each other's alone
}

// newKeys derives the keys of a server from its token.
func newKeys(secret string) *keys {
	derive := func(use string) []byte {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "parley http "+use, sha256.Size)
		if err != nil {
			panic(err) // only for a key that is longer than 255 hashes
		}
		return key
	}
	k := &keys{secret: secret, token: sha256.Sum256([]byte(secret)), pass: derive("sign-in")}
	k.cookie = "parley-" + hex.EncodeToString(derive("cookie name")[:4])
	return k
}

// isToken reports whether text is the token. It compares in constant time.
func (k *keys) isToken(text string) bool {
	hash := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(hash[:], k.token[:]) == 1
}

// A pass is the value of the cookie that a browser sends instead of the token:
// the second at which it ends, 16 random bytes and the signature of both, as base64.
const (
	signedLen = 8 + 16
	passLen   = signedLen + sha256.Size
)

// issue returns a new pass.
func (k *keys) issue(until time.Time) string {
	pass := make([]byte, signedLen, passLen)
	binary.BigEndian.PutUint64(pass, uint64(until.Unix()))
	_, _ = rand.Read(pass[8:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(append(pass, sign(k.pass, pass)...))
}

// valid reports whether the pass was issued with these keys and has not expired.
func (k *keys) valid(text string, now time.Time) bool {
	pass, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(pass) != passLen {
		return false
	}
	signed := pass[:signedLen]
	return hmac.Equal(pass[signedLen:], sign(k.pass, signed)) && now.Unix() < int64(binary.BigEndian.Uint64(signed))
}

func sign(key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return mac.Sum(nil)
}

// hashed returns the hash of a pass or a code. The store holds only such hashes.
func hashed(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// keys returns the keys of the token that is in force.
func (s *Server) keys() *keys {
	current := s.current.Load()
	if s.file == nil {
		return current
	}
	token := s.file.Token()
	if token == current.secret {
		return current
	}
	fresh := newKeys(token)
	s.current.Store(fresh) // a concurrent request stores the same keys, or older ones, which the next request replaces
	return fresh
}
