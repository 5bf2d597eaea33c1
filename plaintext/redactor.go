package plaintext

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shortestSecret is the length in bytes from which a secret is hidden. Shorter ones may be placeholders, and parts of many words.
const shortestSecret = 6

// Redactor hides secrets in texts that others wrote. It is safe for concurrent use, and a nil Redactor hides nothing.
type Redactor struct {
	mu       sync.RWMutex
	forms    []string // of all secrets, as they may stand in a text
	replacer *strings.Replacer
}

// NewRedactor returns a Redactor of these secrets.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{replacer: strings.NewReplacer()}
	for _, secret := range secrets {
		r.Add(secret)
	}
	return r
}

// Add has one more secret hidden, also as it stands in JSON, in quotes, in a URL and in base64. The password of a secret that is a
// URL is hidden as well.
func (r *Redactor) Add(secret string) {
	if len(secret) < shortestSecret {
		return
	}
	if u, err := url.Parse(secret); err == nil && u.Host != "" {
		r.Add(u.Query().Get("password"))
		if password, has := u.User.Password(); has || len(u.User.Username()) >= 16 { // a token, if it is that long
			r.Add(password)
			r.Add(u.User.String())
		}
	}
	inJSON, _ := json.Marshal(secret) // a text can always be written
	quoted := strconv.Quote(secret)
	forms := []string{
		secret, string(inJSON[1 : len(inJSON)-1]), quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forms = append(r.forms, forms...)
	slices.SortFunc(r.forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be the beginning of another
	var pairs []string
	for _, form := range r.forms {
		pairs = append(pairs, form, "(hidden)")
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// Hide returns a text with "(hidden)" in place of the secrets.
func (r *Redactor) Hide(text string) string {
	if r == nil {
		return text
	}
	r.mu.RLock()
	replacer := r.replacer
	r.mu.RUnlock()
	return replacer.Replace(text)
}

// HideIn returns an error whose text has no secrets: err itself if it has none.
func (r *Redactor) HideIn(err error) error {
	if err == nil || r.Hide(err.Error()) == err.Error() {
		return err
	}
	return errors.New(r.Hide(err.Error()))
}

// LongWords returns the words of a text that are long enough to be secrets, and the text itself if it has several words: a header
// such as "Bearer TOKEN" has a word before its secret.
func LongWords(text string) []string {
	words := strings.Fields(text)
	if len(words) > 1 {
		words = append(words, strings.TrimSpace(text))
	}
	return slices.DeleteFunc(words, func(word string) bool { return len(word) < 8 })
}

var secretName = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|cred|cookie|private|dsn`)

// SecretWords returns the long words of a variable or a header that are secrets: addresses with a user or a password, and words
// whose name says so. Others may be regions or folders, which must stay readable.
func SecretWords(name, text string) []string {
	return slices.DeleteFunc(LongWords(text), func(word string) bool {
		if u, err := url.Parse(word); err == nil && u.Host != "" {
			return u.User == nil
		}
		return !secretName.MatchString(name)
	})
}
