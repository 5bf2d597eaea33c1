package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// names returns the host names that a server answers to, nil for any. A server that
// asks for no token answers to its own names only: a foreign page whose name was pointed at this
// machine (DNS rebinding) would otherwise be let in as a page of the server. With a token such a
// page has no cookie, so any name is accepted unless some are configured.
func names(c Config) map[string]bool {
	if c.Auth != AuthNone && len(c.Hosts) == 0 {
		return nil
	}
	all := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, name := range c.Hosts {
		all[hostName(name)] = true
	}
	host, _, err := net.SplitHostPort(c.Address())
	if err == nil && host != "" && !net.ParseIP(host).IsUnspecified() {
		all[hostName(c.Address())] = true
	}
	delete(all, "") // hostName returns "" for what is no name
	return all
}

// isMe reports whether the request names this server by one of its names.
func (s *Server) isMe(r *http.Request) bool { return s.names == nil || s.names[hostName(r.Host)] }

// proxyHeaders are the headers that proxies add to requests.
var proxyHeaders = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Cf-Connecting-Ip"}

// isDirect reports whether a request seems to come from a program on this
// machine, and not through a proxy.
func isDirect(r *http.Request) bool {
	if slices.ContainsFunc(proxyHeaders, func(name string) bool { return r.Header.Get(name) != "" }) {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// origins returns the protection against requests of other sites' pages.
func origins(hosts []string) *http.CrossOriginProtection {
	protection := http.NewCrossOriginProtection()
	for _, host := range hosts {
		// A proxy may put another Host into the request than the browser asked
		// for. A name of another form has been refused with the configuration.
		_ = protection.AddTrustedOrigin("https://" + strings.ToLower(host))
	}
	return protection
}

// isSameOrigin reports whether a request comes from a page of this server, or
// from no page at all, as the browser says in Sec-Fetch-Site or Origin. Beside
// it, the cookie is SameSite=Strict: of a page of another site it is not sent.
func (s *Server) isSameOrigin(r *http.Request) bool { return s.origins.Check(r) == nil }

// isForeignLoad reports whether a page of another origin embeds the answer.
// Following a link is allowed.
func isForeignLoad(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return isSafe(r) && (from == "cross-site" || from == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}
