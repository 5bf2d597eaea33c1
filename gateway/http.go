package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"parley/conversation/signin"
	"parley/httpserver"
)

// addHTTP starts listening for HTTP unless the configuration switches it off. If
// another program uses the default address, the gateway goes on without HTTP.
func (g *Gateway) addHTTP(ctx context.Context) error {
	if g.cfg.HTTP.Address() == "" {
		return nil
	}
	parts := httpserver.Deps{
		Config: g.cfg.HTTP, SignIns: signin.New(g.store), Folder: filepath.Dir(g.store.Path()), Ready: g.ready, Observe: g.metrics.Answered, Log: g.log,
	}
	served := signin.Server{Token: signin.TokenConfigured}
	if g.cfg.HTTP.Token == "" {
		file, err := httpserver.OpenTokenFile(g.store.Path(), g.log, g.lines.Hide)
		if err != nil {
			return err
		}
		parts.TokenFile, served.Token = file, signin.TokenMade
	} else if _, err := os.Lstat(httpserver.TokenPath(g.store.Path())); err == nil {
		g.log.Info("configured token used instead of the token file", "file", httpserver.TokenPath(g.store.Path()))
	}
	if g.cfg.HTTP.Auth == httpserver.AuthNone {
		served.Token = signin.TokenNone
	}
	server, err := httpserver.New(parts)
	if g.cfg.HTTP.Listen == nil && errors.Is(err, syscall.EADDRINUSE) {
		g.log.Warn("address in use, this gateway serves no HTTP; listen in the section [http] sets another address",
			"address", g.cfg.HTTP.Address())
		return nil
	}
	if err != nil {
		return err
	}
	server.Handle("GET /metrics", httpserver.Program, g.metrics)
	g.http = server
	served.URLs = server.URLs()
	return signin.New(g.store).SetServer(ctx, served)
}

// signInLines returns lines that tell how to open the pages in a browser. They hold
// a code that signs in, so they are for a terminal only, never for the log.
func (g *Gateway) signInLines(ctx context.Context) ([]string, error) {
	if !g.http.NeedsToken() {
		return []string{"In the browser: " + g.http.URL()}, nil
	}
	links, err := httpserver.NewLinks(ctx, g.http.URLs(), signin.New(g.store).AddCode)
	if err != nil {
		return nil, err
	}
	return append([]string{"In the browser, signed in once by this link within 10 minutes (`gateway token link` makes more):"}, links...), nil
}

// printSignIn prints a link that signs in if standard error is a terminal. Others
// may read a log, so it gets none.
func (g *Gateway) printSignIn(ctx context.Context) error {
	if g.http == nil || !g.http.NeedsToken() {
		return nil
	}
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		g.log.Info("sign-in link available by command", "command", "gateway token link")
		return nil
	}
	lines, err := g.signInLines(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	return err
}
