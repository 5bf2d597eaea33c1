package main

import (
	"errors"
	"path/filepath"
	"syscall"

	"parley/httpserver"
)

// addHTTP begins to listen for HTTP, unless that is configured off. At an
// address that nobody has chosen, another gateway may be listening already;
// this one then goes on without.
func (g *gateway) addHTTP() error {
	if g.cfg.HTTP.Address() == "" {
		return nil
	}
	server, err := httpserver.New(httpserver.Parts{Config: g.cfg.HTTP, Folder: filepath.Dir(g.store.Path()), Ready: g.readiness(), Observe: g.metrics.Answered, Log: g.log})
	if g.cfg.HTTP.Listen == nil && errors.Is(err, syscall.EADDRINUSE) {
		g.log.Warn("another program listens at this address, so this gateway serves no HTTP; it can be given another: listen in the section [http]",
			"address", g.cfg.HTTP.Address())
		return nil
	}
	if err != nil {
		return err
	}
	server.Handle("GET /metrics", httpserver.Program, g.metrics)
	g.http = server
	return nil
}
