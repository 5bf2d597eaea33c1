package webfetch

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config is the [web_fetch] section.
type Config struct {
	// Enabled selects whether the model may read web pages. Default false.
	Enabled bool `toml:"enabled"`

	// AllowPrivate are the servers, as host:port, that are read although their addresses
	// are not public. Default none.
	AllowPrivate []string `toml:"allow_private"`

	// Robots selects whether a page is read only if the robots.txt of its site allows that.
	// Default true.
	Robots bool `toml:"robots"`

	// Contact is the address of a page about this gateway, which is sent to every site.
	// Default "".
	Contact string `toml:"contact" kind:"url"`

	// Proxy is the address of an HTTP proxy by which everything is fetched. The proxy
	// looks up the names, so it is the proxy that must keep private addresses out.
	// Default "": none, whatever the environment says.
	Proxy string `toml:"proxy" kind:"url"`

	// MaxSize is how much is read of a page, in MiB, as it is sent and as it is unpacked.
	// Default 5.
	MaxSize int64 `toml:"max_size" min:"1" max:"50"`

	// Timeout is how long a page may take, redirects included. Default 30s.
	Timeout time.Duration `toml:"timeout" min:"1s" max:"5m"`
}

// DefaultConfig returns what holds when the section says nothing.
func DefaultConfig() Config {
	return Config{Robots: true, MaxSize: 5, Timeout: 30 * time.Second}
}

// CheckKeys reports servers that are not written as host:port.
func (c Config) CheckKeys(report func(key, found, allowed string)) {
	for _, server := range c.AllowPrivate {
		host, port, err := net.SplitHostPort(server)
		number, notNumber := strconv.Atoi(port)
		if err != nil || notNumber != nil || host == "" || strings.ContainsAny(host, "/@*") || number < 1 || number > 65535 {
			report("allow_private", fmt.Sprintf("%q", server), `a server as "host:port", such as "wiki.example.org:443"`)
		}
	}
}
