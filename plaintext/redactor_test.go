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
	r := plaintext.NewRedactor(secret, secret+"-and-more", "postgres://me:a%20pass-phrase@host/db", "postgres://host/db?password=a+query-phrase", "https://token-for-more-than-reading@host/", "postgres://postgres@localhost/db", "short", "")
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		secret, secret + "-and-more", string(inJSON), fmt.Sprintf("%q", secret), "x?key=" + url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)), "a pass-phrase", "a query-phrase", "token-for-more-than-reading", "postgres://me:a%20pass-phrase@other/db",
	} {
		got := r.Hide("it is " + text + ".")
		if !strings.HasPrefix(got, "it is ") || !strings.Contains(got, "(hidden)") || strings.Contains(got, "4711") || strings.Contains(got, "phrase") || strings.Contains(got, "token") || strings.Contains(got, "more") {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	if got := r.Hide("a short text of postgres"); got != "a short text of postgres" {
		t.Errorf("got %q", got)
	}
	var none *plaintext.Redactor
	if got := none.Hide(secret); got != secret {
		t.Errorf("got %q", got)
	}
}

// What a variable or a header holds is a secret by its name, or as an address with a password: not a region, a level or a folder.
func TestSecretsAreToldFromSettings(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"SHOP_TOKEN": "tok-4711-tok", "authorization": "Bearer-4711", "SHOP": "https://me:pass-phrase@host/"} {
		if len(plaintext.SecretWords(name, text)) == 0 {
			t.Errorf("%s has no secret", name)
		}
	}
	for name, text := range map[string]string{"REGION": "eu-central-1", "LOG_LEVEL": "information", "FOLDER": "/srv/of/the/shop", "KEYS_AT": "https://host/keys"} {
		if len(plaintext.SecretWords(name, text)) > 0 {
			t.Errorf("%s has a secret", name)
		}
	}
}
