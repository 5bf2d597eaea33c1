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
	Listen         *string  `toml:"listen" kind:"address" env:"HTTP_LISTEN"` // "host:port"; "" = no server; nil, the default, = DefaultListen where nobody else listens there
	Auth           string   `toml:"auth" oneof:"token none"`                 // AuthToken, or AuthNone for an address of this machine alone; default AuthToken
	Token          string   `toml:"token" kind:"secret" env:"HTTP_TOKEN"`    // what people sign in with and programs send; "" = one that the gateway has made
	Hosts          []string `toml:"hosts"`                                   // further names under which the server is reached, such as a proxy's; default none
	TrustProxy     bool     `toml:"trust_proxy"`                             // believe X-Forwarded-For and X-Forwarded-Proto; default false
	MaxConnections int      `toml:"max_connections" min:"1"`                 // open at once; the others wait; default 2000
	Stateless      bool     `toml:"stateless"`                               // a chat completion that names no session is answered from its messages alone, and not stored; default true
}

// What a server asks for.
const (
	AuthToken = "token" // the token, or a sign-in with it
	AuthNone  = "none"  // nothing: everybody who reaches the server may do everything
)

// DefaultConfig returns the section with all defaults.
func DefaultConfig() Config {
	return Config{Auth: AuthToken, MaxConnections: defaultMaxConnections, Stateless: true}
}

// Address returns where the server listens, "" when it is off.
func (c Config) Address() string {
	if c.Listen == nil {
		return DefaultListen
	}
	return *c.Listen
}

// CheckKeys reports an address, a token and names of hosts that can't work.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	_, port, err := net.SplitHostPort(c.Address())
	_, portErr := strconv.ParseUint(port, 10, 16)
	if c.Address() != "" && (err != nil || portErr != nil) {
		report("listen", fmt.Sprintf("%q (string)", c.Address()), `"host:port" such as "127.0.0.1:8787", or "" for no server`)
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

// Check reports keys that are allowed by themselves but can't work together.
func (c Config) Check(report func(key, found, allowed string)) {
	if c.Auth != AuthNone {
		return
	}
	if host, _, err := net.SplitHostPort(c.Address()); err == nil && !isLoopback(host) {
		report("listen", fmt.Sprintf("%q (string), which other machines reach, and auth = %q", c.Address(), AuthNone),
			fmt.Sprintf(`with auth = %q an address of this machine alone such as "127.0.0.1:8787"`, AuthNone))
	}
	c.checkOpen(report)
}

// checkOpen reports what must not be combined with a server that asks for no
// token: a proxy would let in everybody who reaches it.
func (c Config) checkOpen(report func(key, found, allowed string)) {
	const instead = `auth = "token", without which whoever reaches the proxy may do everything`
	if c.Token != "" {
		report("auth", fmt.Sprintf("%q (string), and a token", AuthNone), `"token", or no token (token, token_file, HTTP_TOKEN)`)
	}
	if c.TrustProxy {
		report("trust_proxy", fmt.Sprintf("true (boolean), and auth = %q", AuthNone), instead)
	}
	for _, name := range c.Hosts {
		if host := hostName(name); host != "" && !isLoopback(host) && !strings.HasSuffix(host, ".localhost") {
			report("hosts", fmt.Sprintf("%q (string), which may be another machine's, and auth = %q", name, AuthNone), instead)
		}
	}
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// hostName returns the name in "name:port", in lower case and without the
// brackets of an IPv6 address, and "" for anything else.
func hostName(hostport string) string {
	u, err := url.Parse("//" + hostport)
	if err != nil || u.Host != hostport {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// base returns the address that a person on this machine types.
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
