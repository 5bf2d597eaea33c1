package faulttest

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tokenPrograms is programs with a gateway that creates its token.
type tokenPrograms struct{ programs }

func newTokenPrograms(w *world) platform { return tokenPrograms{newPrograms(w).(programs)} }

func (g tokenPrograms) section() string {
	return g.telegram.section() + fmt.Sprintf("[http]\nlisten = %q\n", g.listen)
}

// failingCommand runs a subcommand that must fail, and returns its error output.
func (w *world) failingCommand(args ...string) string {
	w.t.Helper()
	p := w.run(nil, args...)
	p.MustExit(1)
	return p.Stderr.String()
}

// status requests the list of sessions with a token or a cookie, and returns the HTTP status.
func (g tokenPrograms) status(w *world, header, value string) int {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+g.listen+"/api/v1/sessions", nil)
	w.must(err)
	request.Header.Set(header, value)
	answer, err := http.DefaultClient.Do(request)
	w.must(err)
	answer.Body.Close()
	return answer.StatusCode
}

// follow signs a browser in by a link, and returns its cookie, "" if the link is not valid.
func (g tokenPrograms) follow(w *world, link string) (cookie string) {
	w.t.Helper()
	_, code, found := strings.Cut(link, "http://"+g.listen+"/signin/link#")
	if !found {
		w.t.Fatalf("%q is no link to %s", link, g.listen)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.PostForm("http://"+g.listen+"/signin", url.Values{"code": {code}})
	w.must(err)
	answer.Body.Close()
	if answer.StatusCode == http.StatusUnauthorized {
		return ""
	}
	cookie, _, _ = strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	return cookie
}

func expectStatus(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s is answered %d, want %d", what, got, want)
	}
}

// TestTokenIsMadeAtTheFirstStart checks what an operator can do after the first start, and that nobody
// else on the machine can read the token.
func TestTokenIsMadeAtTheFirstStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newTokenPrograms})
	g := w.platform.(tokenPrograms)
	if said := w.failingCommand("token"); !strings.Contains(said, "gateway run") {
		t.Errorf("before the first start: %s", said)
	}
	if said := w.failingCommand("token", "link"); !strings.Contains(said, "no gateway serves") {
		t.Errorf("before the first start: %s", said)
	}
	p := w.startServing()
	token := w.gw.MustRun("token")
	info, err := os.Stat(filepath.Join(w.gw.Dir, "http-token"))
	w.must(err)
	if info.Mode() != 0o600 || len(token) < 26 {
		t.Errorf("the file has the mode %v, the token %d characters", info.Mode(), len(token))
	}
	expectStatus(t, "a stranger", g.status(w, "X-Nothing", "x"), http.StatusUnauthorized)
	expectStatus(t, "a made-up token", g.status(w, "Authorization", "Bearer none"), http.StatusUnauthorized)
	expectStatus(t, "the token", g.status(w, "Authorization", "Bearer "+token), http.StatusOK)

	link := w.gw.MustRun("token", "link")
	cookie := g.follow(w, link)
	expectStatus(t, "the link's cookie", g.status(w, "Cookie", cookie), http.StatusOK)
	if g.follow(w, link) != "" {
		t.Error("the link signs in a second time")
	}
	unused := w.gw.MustRun("token", "link")

	p.Kill()
	p = w.startServing()
	expectStatus(t, "the token after a restart", g.status(w, "Authorization", "Bearer "+token), http.StatusOK)
	expectStatus(t, "the cookie after a restart", g.status(w, "Cookie", cookie), http.StatusOK)
	if g.follow(w, unused) != "" {
		t.Error("a link is still valid after the gateway has ended")
	}

	w.gw.MustRun("token", "rotate")
	expectStatus(t, "the old token", g.status(w, "Authorization", "Bearer "+token), http.StatusUnauthorized)
	expectStatus(t, "an old cookie", g.status(w, "Cookie", cookie), http.StatusUnauthorized)
	fresh := w.gw.MustRun("token")
	expectStatus(t, "the new token", g.status(w, "Authorization", "Bearer "+fresh), http.StatusOK)
	p.Stop()
	_, code, _ := strings.Cut(link, "#")
	for what, secret := range map[string]string{"the token": token, "the new token": fresh, "a code": code, "a cookie": cookie} {
		if strings.Contains(w.gw.Log.String(), secret) {
			t.Errorf("the log contains %s", what)
		}
		for _, file := range []string{w.gw.Database, w.gw.Database + "-wal"} {
			if bytes, _ := os.ReadFile(file); strings.Contains(string(bytes), secret) {
				t.Errorf("%[2]s contains %[1]s", what, file)
			}
		}
	}
}

// TestConfiguredTokenIsNotRotated configures a token in the environment of the running gateway, which a
// command in another shell does not see.
func TestConfiguredTokenIsNotRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newTokenPrograms})
	g := w.platform.(tokenPrograms)
	w.startServing().Stop() // creates a token
	w.gw.Env = []string{"HTTP_TOKEN=a-token-in-the-environment"}
	p := w.startServing()
	if token := w.gw.MustRun("token"); token != "a-token-in-the-environment" {
		t.Errorf("the token is %q", token)
	}
	if said := w.failingCommand("token", "rotate"); !strings.Contains(said, "HTTP_TOKEN") {
		t.Errorf("%s", said)
	}
	w.gw.Env = nil
	before := w.gw.MustRun("token")
	if said := w.failingCommand("token", "rotate"); !strings.Contains(said, "HTTP_TOKEN") || !strings.Contains(said, fmt.Sprint(p.PID())) {
		t.Errorf("%s", said)
	}
	if w.gw.MustRun("token") != before {
		t.Error("the token was rotated nevertheless")
	}
	expectStatus(t, "the configured token", g.status(w, "Authorization", "Bearer a-token-in-the-environment"), http.StatusOK)
	expectStatus(t, "the token in the file", g.status(w, "Authorization", "Bearer "+before), http.StatusUnauthorized)
	if cookie := g.follow(w, w.gw.MustRun("token", "link")); g.status(w, "Cookie", cookie) != http.StatusOK {
		t.Error("the link does not sign in")
	}
	p.Stop()
}

// TestBrokenTokenFileStopsTheStart expects an error in one line, with the file's name.
func TestBrokenTokenFileStopsTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newTokenPrograms})
	w.must(os.WriteFile(filepath.Join(w.gw.Dir, "http-token"), nil, 0o600))
	p := w.start()
	p.MustExit(1)
	if said := p.Stderr.String(); !strings.Contains(said, filepath.Join(w.gw.Dir, "http-token")) || !strings.Contains(said, "gateway token rotate") {
		t.Errorf("%s", said)
	}
	w.gw.MustRun("token", "rotate")
	w.startServing().Stop()
}
