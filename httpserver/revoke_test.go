package httpserver_test

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation/signin"
	"parley/httpserver"
	"parley/internal/waittest"
)

// After a sign-out, the cookie is not valid any more, in no browser, and also after a restart.
func TestSignOutRevokesTheCookie(t *testing.T) {
	t.Parallel()
	signIns := signin.New(newStore(t))
	parts := httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signIns}
	s := start(t, parts)
	b := browser(t)
	cookie := header("Cookie", s.signIn(b, token).Header.Get("Set-Cookie"))
	other := header("Cookie", s.signIn(program(t), token).Header.Get("Set-Cookie"))
	s.send(program(t), "GET", "/person", cookie).expect(t, 200)
	s.send(b, "POST", "/signout").expect(t, 303)
	for range 2 {
		s.send(program(t), "GET", "/person", cookie).expect(t, 303)
		s.send(program(t), "GET", "/program", cookie).expect(t, 401)
		s.send(program(t), "POST", "/person", cookie).expect(t, 401)
		s.send(program(t), "GET", "/person", other).expect(t, 200)
		s.stop()
		s = start(t, parts)
	}
}

// While the store fails, known sign-ins and the token stay valid, and no unknown cookie is accepted.
func TestSignInsAreNotGuessedWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	parts := httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signin.New(store)}
	s := start(t, parts)
	b, out := browser(t), browser(t)
	for _, client := range []*http.Client{b, out} {
		s.signIn(client, token).expect(t, 303)
	}
	copied := header("Cookie", s.signIn(out, token).Header.Get("Set-Cookie"))
	s.send(out, "POST", "/signout").expect(t, 303)
	s.send(b, "GET", "/person").expect(t, 200)
	unseen := header("Cookie", start(t, parts).signIn(program(t), token).Header.Get("Set-Cookie"))
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.send(b, "GET", "/person").expect(t, 200)
	s.send(program(t), "GET", "/person", copied).expect(t, 503)
	s.send(program(t), "GET", "/person", unseen).expect(t, 503)
	s.send(b, "POST", "/signout").expect(t, 503)
	s.send(b, "GET", "/person").expect(t, 200)
	s.signIn(program(t), token).expect(t, 503)
	s.send(program(t), "GET", "/program", bearer(token)).expect(t, 200)
	s.send(b, "GET", "/program", bearer(token)).expect(t, 200)
	s.send(program(t), "GET", "/public").expect(t, 200)
}

// withFile returns a server with a token file, and a function that replaces the token.
func withFile(t *testing.T, routes ...func(*httpserver.Server)) (s *site, file *httpserver.TokenFile, rotate func()) {
	t.Helper()
	database := filepath.Join(t.TempDir(), "conversations.db")
	file, err := httpserver.OpenTokenFile(database, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, httpserver.Deps{TokenFile: file}, routes...), file, func() {
		t.Helper()
		if err := httpserver.RotateTokenFile(database); err != nil {
			t.Fatal(err)
		}
	}
}

// When the token is replaced, the old token and all sign-ins with it are void at once.
func TestRotationVoidsTokenAndSignInsAtOnce(t *testing.T) {
	t.Parallel()
	s, file, rotate := withFile(t)
	old := file.Token()
	b := browser(t)
	s.signIn(b, old).expect(t, 303)
	rotate()
	s.send(program(t), "GET", "/program", bearer(old)).expect(t, 401)
	s.send(b, "GET", "/person").expect(t, 303)
	s.send(b, "POST", "/person").expect(t, 401)
	s.signIn(b, old).expect(t, 401)
	s.send(program(t), "GET", "/program", bearer(file.Token())).expect(t, 200)
	s.signIn(b, file.Token()).expect(t, 303)
	s.send(b, "GET", "/person").expect(t, 200)
}

// A stream ends when the sign-in or token that it was opened with is void.
func TestStreamsEndWithTheirSignIn(t *testing.T) {
	t.Parallel()
	events := func(w http.ResponseWriter, r *http.Request) {
		if httpserver.OpenEvents(w).Beat() == nil {
			<-r.Context().Done()
		}
	}
	s, file, rotate := withFile(t, route("GET /events", httpserver.Program, events))
	open := func(head string) (ended chan struct{}) {
		t.Helper()
		conn := s.dial("GET /events HTTP/1.1\r\nHost: localhost\r\n" + head + "\r\n\r\n")
		begun, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || begun.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", begun, err)
		}
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(io.Discard, begun.Body)
		}()
		return ended
	}
	cookieOf := func(answer response) string {
		name, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
		return "Cookie: " + name
	}
	out, stays := browser(t), browser(t)
	first, second := open(cookieOf(s.signIn(out, file.Token()))), open(cookieOf(s.signIn(stays, file.Token())))
	third := open("Authorization: Bearer " + file.Token())
	s.send(out, "POST", "/signout").expect(t, 303)
	waittest.Receive(t, first, "the end of the stream")
	for _, going := range []chan struct{}{second, third} {
		select {
		case <-going:
			t.Error("a stream has ended with another's sign-in")
		default:
		}
	}
	rotate()
	waittest.Receive(t, second, "the end of the second stream")
	waittest.Receive(t, third, "the end of the third stream")
}

// A link signs one browser in, once.
func TestLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	s := start(t, httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signin.New(store)})
	links, err := httpserver.NewLinks(t.Context(), []string{s.url + "/", "https://chat.example.com/"}, signin.New(store).AddCode)
	if err != nil || len(links) != 2 || !strings.HasPrefix(links[1], "https://chat.example.com/signin/link#") {
		t.Fatalf("got %q, %v", links, err)
	}
	address, err := url.Parse(links[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // as previews and scanners of links do
		page := s.send(program(t), "GET", address.Path)
		page.expect(t, 200)
		if !strings.Contains(page.body, `<script src="/signin.js"`) || !strings.Contains(page.body, `name="code"`) {
			t.Errorf("the page of the link is %s", page.body)
		}
	}
	if script := s.send(program(t), "GET", "/signin.js"); !strings.Contains(script.Header.Get("Content-Type"), "javascript") {
		t.Errorf("the script is %s", script.Header.Get("Content-Type"))
	}
	b := browser(t)
	post := func(client *http.Client, name string) response {
		return s.send(client, "POST", "/signin", form(url.Values{name: {address.Fragment}, "next": {"/person"}}))
	}
	post(b, "code").expect(t, 303)
	s.send(b, "GET", "/person").expect(t, 200)
	again := post(program(t), "code")
	again.expect(t, 401)
	if !strings.Contains(again.body, "has been used") {
		t.Errorf("the second time the page says %s", again.body)
	}
	post(program(t), "token").expect(t, 401)
	if strings.Contains(s.log.String(), address.Fragment) {
		t.Error("the code stands in the log")
	}

	// Without scripts, the code is entered like a token.
	links, err = httpserver.NewLinks(t.Context(), []string{s.url}, signin.New(store).AddCode)
	if err != nil {
		t.Fatal(err)
	}
	address.Fragment = links[0][strings.Index(links[0], "#")+1:]
	foreign := s.send(program(t), "POST", "/signin", form(url.Values{"code": {address.Fragment}}), header("Origin", "https://evil.example"))
	foreign.expect(t, 403)
	post(b, "token").expect(t, 303)
}

// Wrong codes are delayed like wrong tokens, and a right code is never refused.
func TestWrongCodesAreSlowed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	parts := httpserver.Deps{Config: httpserver.Config{Token: token}, SignIns: signin.New(store)}
	parts.Limits.Guesses = httpserver.Rate{PerSecond: 1e-6, Burst: 3}
	s := start(t, parts)
	try := func(code string) response {
		return s.send(program(t), "POST", "/signin", form(url.Values{"code": {code}}))
	}
	for _, status := range []int{401, 401, 401, 429, 429} {
		try("AAAAAAAAAAAAAAAAAAAAAAAAAA").expect(t, status)
	}
	links, err := httpserver.NewLinks(t.Context(), []string{s.url}, signin.New(store).AddCode)
	if err != nil {
		t.Fatal(err)
	}
	try(links[0][strings.Index(links[0], "#")+1:]).expect(t, 303)
}
