package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"parley/config"
	"parley/conversation/maintenance"
	"parley/conversation/signin"
	"parley/httpserver"
)

// noSharedToken is the error where the gateway would have to make its token beside a database that is on a server. It comes behind
// the place of the key database.
const noSharedToken = "%s: the database is on a server, so that several gateways may use it, and http.token is not set: give all of them the same token " +
	"(token or token_file in the section [http], or HTTP_TOKEN)"

// checkSharedToken fails where the gateways of a database need a token that none of them can make. setAt is where the database was
// configured.
func checkSharedToken(cfg config.Config, database, setAt string) error {
	if cfg.HTTP.Address() == "" || !maintenance.OnServer(database) || cfg.HTTP.Token != "" || cfg.HTTP.Auth == httpserver.AuthNone {
		return nil
	}
	return fmt.Errorf(noSharedToken, setAt)
}

// addHTTP starts listening for HTTP unless the configuration switches it off. If
// another program uses the default address, the gateway goes on without HTTP.
func (g *Gateway) addHTTP(ctx context.Context) error {
	if g.cfg.HTTP.Address() == "" {
		return nil
	}
	folder := filepath.Dir(g.store.Path())
	if maintenance.OnServer(g.store.Path()) {
		folder = ""
	}
	parts := httpserver.Deps{
		Config: g.cfg.HTTP, SignIns: signin.New(g.store), Folder: folder, Ready: g.ready, Observe: g.metrics.Answered, Now: g.store.Now, Log: g.log,
	}
	served := signin.Server{Token: signin.TokenConfigured}
	if g.cfg.HTTP.Token == "" && folder != "" {
		file, err := httpserver.OpenTokenFile(g.store.Path(), g.log, g.secrets.Add)
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
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: http.listen: another program, perhaps a second gateway, uses %s; stop that one, or set another address there",
			g.origins["http.listen"].Place(), g.cfg.HTTP.Address())
	}
	if listening := (*net.OpError)(nil); errors.As(err, &listening) {
		return fmt.Errorf("%s: http.listen: found %s, which the server can't listen on (%w), allowed: an address of this machine with a free port",
			g.origins["http.listen"].Place(), g.cfg.HTTP.Address(), listening.Err)
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
	return append([]string{"In the browser, signed in once by this link within 10 minutes (`" + g.command("token link") + "` makes more):"}, links...), nil
}

// printSignIn prints a link that signs in if standard error is a terminal. Others
// may read a log, so it gets none.
func (g *Gateway) printSignIn(ctx context.Context) error {
	if g.http == nil || !g.http.NeedsToken() {
		return nil
	}
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		g.log.Info("browsers sign in with a link that this command prints", "command", g.command("token link"))
		return nil
	}
	lines, err := g.signInLines(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	return err
}
