package httpserver

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// DefaultListen is where the server listens when nothing is configured.
const DefaultListen = "127.0.0.1:8787"

// Defaults and bounds of the [http] section.
const (
	defaultMaxConnections = 2000
	minToken              = 16 // characters; with fewer, guessing becomes worthwhile
)

// Config is the [http] section.
type Config struct {
	Listen         *string  `toml:"listen"`                               // "host:port"; "" = no server; nil, the default, = DefaultListen where nobody else listens there
	Token          string   `toml:"token" kind:"secret" env:"HTTP_TOKEN"` // what people sign in with and programs send; must be set unless only this machine is listened to
	Hosts          []string `toml:"hosts"`                                // further names under which the server is reached, such as a proxy's; default none
	TrustProxy     bool     `toml:"trust_proxy"`                          // believe X-Forwarded-For and X-Forwarded-Proto; default false
	MaxConnections int      `toml:"max_connections" min:"1"`              // open at once; the others wait; default 2000
}

// DefaultConfig is the section when nothing is configured.
func DefaultConfig() Config { return Config{MaxConnections: defaultMaxConnections} }

// Address is where the server listens, "" when there is to be none.
func (c Config) Address() string {
	if c.Listen == nil {
		return DefaultListen
	}
	return *c.Listen
}

// Check reports what can't work although each key by itself may stand.
func (c Config) Check(report func(key, found, allowed string)) {
	host, port, err := net.SplitHostPort(c.Address())
	_, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case c.Address() == "":
	case err != nil || portErr != nil:
		report("listen", fmt.Sprintf("%q (string)", c.Address()), `"host:port" such as "127.0.0.1:8787", or "" for no server`)
	case !isLoopback(host) && c.Token == "":
		report("listen", fmt.Sprintf("%q (string), which other machines reach, and no token", c.Address()),
			fmt.Sprintf(`a token of at least %d characters beside it (token, token_file or HTTP_TOKEN), or an address of this machine alone such as "127.0.0.1:8787"`, minToken))
	}
	if c.Token != "" && len(c.Token) < minToken {
		report("token", fmt.Sprintf("a secret of %d characters", len(c.Token)), fmt.Sprintf("at least %d characters", minToken))
	}
	for _, name := range c.Hosts {
		if hostName(name) == "" || hostName(name) != strings.Trim(strings.ToLower(name), "[]") || strings.Contains(name, "*") {
			report("hosts", fmt.Sprintf("%q (string)", name), `names without scheme, port and path, such as "chat.example.com"`)
		}
	}
}

// isLoopback says whether only this machine reaches an address.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// hostName is the name in "name:port", in lower case, without the brackets of
// an IPv6 address; "" when that is not what it is.
func hostName(hostport string) string {
	u, err := url.Parse("//" + hostport)
	if err != nil || u.Host != hostport {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// base is the address that a person on this machine types.
func base(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(cmp.Or(host, "localhost"), strconv.Itoa(tcp.Port)) + "/"
}
