package httpserver_test

import (
	"log/slog"
	"net/http"
	"testing"

	"parley/conversation/signin"
	"parley/httpserver"
)

// Pages use Serves and NeedsToken to link to other pages and to offer signing out.
func TestServesReportsPagesForPeople(t *testing.T) {
	t.Parallel()
	listen := "127.0.0.1:0"
	for auth, token := range map[string]string{httpserver.AuthNone: "", httpserver.AuthToken: "a-token-that-is-long-enough"} {
		server, err := httpserver.New(httpserver.Deps{
			Config:  httpserver.Config{Listen: &listen, Auth: auth, Token: token, MaxConnections: 1},
			SignIns: signin.New(newStore(t)), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		server.Handle("GET /console/{$}", httpserver.Person, http.NotFoundHandler())
		server.Handle("POST /hook", httpserver.Public, http.NotFoundHandler())
		for path, want := range map[string]bool{"/console/": true, "/console/else": false, "/hook": false, "/api/docs": false} {
			if got := server.Serves(path); got != want {
				t.Errorf("it serves %s: %t", path, got)
			}
		}
		if got := server.NeedsToken(); got != (token != "") {
			t.Errorf("with the token %q it needs one: %t", token, got)
		}
	}
}
