package plaintext_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"parley/plaintext"
)

func TestRedactorHidesSecretsInEachForm(t *testing.T) {
	t.Parallel()
	const secret = `p"ss/wörd+4711`
	r := plaintext.NewRedactor(secret, secret+"-and-more", "postgres://me:a%20pass-phrase@host/db", "short", "")
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		secret, secret + "-and-more", string(inJSON), fmt.Sprintf("%q", secret), "x?key=" + url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)), "a pass-phrase", "postgres://me:a%20pass-phrase@other/db",
	} {
		got := r.Hide("it is " + text + ".")
		if !strings.HasPrefix(got, "it is ") || !strings.Contains(got, "(hidden)") || strings.Contains(got, "4711") || strings.Contains(got, "phrase") || strings.Contains(got, "more") {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	if got := r.Hide("a short text"); got != "a short text" {
		t.Errorf("got %q", got)
	}
	var none *plaintext.Redactor
	if got := none.Hide(secret); got != secret {
		t.Errorf("got %q", got)
	}
}
