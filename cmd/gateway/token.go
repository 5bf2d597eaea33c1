package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"parley/cluster"
	"parley/config"
	"parley/conversation"
	"parley/conversation/maintenance"
	"parley/conversation/signin"
	"parley/httpserver"
)

func tokenCommand(configPath *string) *cobra.Command {
	command := &cobra.Command{
		Use:   "token",
		Short: "Print the token of the HTTP server, for programs",
		Long: "Prints the token that programs send to the HTTP server: the configured one, or the one that the gateway made\n" +
			"at its first start, in the file http-token beside the database. It also signs people in, but a link\n" +
			"(`gateway token link`) is easier.",
		Example: "  curl -H \"Authorization: Bearer $(gateway token)\" http://" + httpserver.DefaultListen + "/api/v1/sessions",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			token, err := tokenOf(cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	command.AddCommand(tokenLinkCommand(configPath), tokenRotateCommand(configPath))
	return command
}

// errNoAuth is returned if the gateway asks for no token.
var errNoAuth = errors.New(`auth = "none" in the section [http]: the gateway asks for no token`)

// errNoTokenFile is returned if no token is configured, and there is no file beside the database that could hold one.
var errNoTokenFile = errors.New("there is no token: where the database is on a server, it is configured (token or token_file in the section [http], or HTTP_TOKEN)")

// tokenOf returns the configured token, or else the one that the gateway made.
func tokenOf(cfg config.Config) (string, error) {
	if cfg.HTTP.Auth == httpserver.AuthNone {
		return "", errNoAuth
	}
	if cfg.HTTP.Token != "" {
		return cfg.HTTP.Token, nil
	}
	if maintenance.OnServer(cfg.Database) {
		return "", errNoTokenFile
	}
	path, err := maintenance.RealPath(cfg.Database)
	if err != nil {
		return "", err
	}
	token, err := httpserver.ReadTokenFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no token in %s: `gateway run` makes it at its first start, unless it is given one (token in the section [http], or HTTP_TOKEN); "+
			"call this where the gateway was started, or name its configuration with -c FILE", httpserver.TokenPath(path))
	}
	return token, err
}

func tokenLinkCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "link",
		Short: "Print a link that signs one browser in",
		Long: "Prints a link to the running gateway. It signs one browser in, once, within ten minutes and until the\n" +
			"gateway is restarted. If the server has several names (hosts in the section [http]), it prints a line for\n" +
			"each; only one of them can be used.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			links, err := signInLinks(cmd.Context(), *configPath)
			if errors.Is(err, errNoAuth) {
				fmt.Fprintln(cmd.ErrOrStderr(), "This gateway asks nobody to sign in:")
				err = nil
			} else if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "This signs one browser in, once, within the next 10 minutes:")
			}
			for _, link := range links {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), link); err != nil {
					return err
				}
			}
			return err
		},
	}
}

// signInLinks returns links that sign in at the running gateway. With errNoAuth they
// lead to its pages without signing in.
func signInLinks(ctx context.Context, configPath string) ([]string, error) {
	server, store, err := runningServer(ctx, configPath)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if server.Token == signin.TokenNone {
		return server.URLs, errNoAuth
	}
	return httpserver.NewLinks(ctx, server.URLs, signin.New(store).AddCode)
}

// runningServer returns the HTTP server of the running gateway, as stored in its
// database. The caller closes the database.
func runningServer(ctx context.Context, configPath string) (signin.Server, *conversation.Store, error) {
	none := signin.Server{}
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		return none, nil, err
	}
	path, err := maintenance.RealPath(cfg.Database)
	if err != nil {
		return none, nil, err
	}
	if !maintenance.OnServer(path) { // else the nodes are known once the database is open
		if pid, err := maintenance.DaemonPID(path); err != nil {
			return none, nil, err
		} else if pid == 0 {
			return none, nil, notServed(path)
		}
	}
	if cfg.HTTP.Address() == "" {
		return none, nil, errNoHTTP
	}
	store, err := openStore(ctx, configPath)
	if err != nil {
		return none, nil, err
	}
	server, err := storedServer(ctx, store)
	if err != nil {
		store.Close()
		return none, nil, err
	}
	return server, store, nil
}

// errNoHTTP is returned where the gateway has no HTTP server.
var errNoHTTP = errors.New("the gateway serves no HTTP: listen in the section [http] says where it would")

func notServed(database string) error {
	return fmt.Errorf("no gateway serves %s: `gateway run` starts one; call this where it was started, or name its configuration with -c FILE", database)
}

// storedServer returns the HTTP server that was started last. Where nodes share the database, one of them must be serving.
func storedServer(ctx context.Context, store *conversation.Store) (server signin.Server, err error) {
	if node := store.Node(); node != nil {
		members, err := node.Members(ctx)
		if err != nil {
			return server, err
		}
		if !slices.ContainsFunc(members, func(m cluster.Member) bool { return m.Command == cluster.Serves }) {
			return server, notServed(store.Path())
		}
	}
	server, err = signin.New(store).Server(ctx)
	if errors.Is(err, signin.ErrNoServer) {
		err = errNoHTTP
	}
	return server, err
}

func tokenRotateCommand(configPath *string) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Make a new token; the old one and all sign-ins are void at once",
		Long: "Replaces the token that the gateway made. A running gateway uses the new one from the next request on: the\n" +
			"old token and all sign-ins become void, and streams end. To replace a configured token, change it where it\n" +
			"is configured, and restart the gateway.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := rotateToken(cmd.Context(), *configPath); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "A new token is in force: `gateway token` prints it, and `gateway token link` a link that signs a browser in.")
			return err
		},
	}
}

func rotateToken(ctx context.Context, configPath string) error {
	cfg, origins, err := config.LoadWithOrigins(configPath, os.Getenv)
	if err != nil {
		return err
	}
	switch {
	case cfg.HTTP.Auth == httpserver.AuthNone:
		return errNoAuth
	case cfg.HTTP.Token != "":
		return fmt.Errorf("the token is configured (%s): change it there, and start the gateway anew", origins["http.token"].Text)
	case maintenance.OnServer(cfg.Database):
		return errNoTokenFile
	}
	path, err := maintenance.RealPath(cfg.Database)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database %s: call this where the gateway was started, or name its configuration with -c FILE", path)
	}
	pid, err := maintenance.DaemonPID(path)
	if err != nil {
		return err
	}
	if pid != 0 && cfg.HTTP.Address() != "" {
		if err := goesByFile(ctx, configPath, pid); err != nil {
			return err
		}
	}
	return httpserver.RotateTokenFile(path)
}

// goesByFile returns an error if the running gateway got its token in a way that
// this command can't see, such as the environment.
func goesByFile(ctx context.Context, configPath string, pid int) error {
	store, err := openStore(ctx, configPath)
	if err != nil {
		return err
	}
	defer store.Close()
	server, err := signin.New(store).Server(ctx)
	switch {
	case errors.Is(err, signin.ErrNoServer):
		return nil
	case err != nil:
		return err
	case server.Token == signin.TokenNone:
		return fmt.Errorf("process %d serves the database with %w", pid, errNoAuth)
	case server.Token == signin.TokenConfigured:
		return fmt.Errorf("the token of the gateway (process %d) is configured, perhaps as HTTP_TOKEN in its environment: change it there, and start the gateway anew", pid)
	}
	return nil
}
