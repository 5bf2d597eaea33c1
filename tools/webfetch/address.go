package webfetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/net/idna"
)

// notPublic are the IPv4 addresses that are no server on the internet, by
// https://www.iana.org/assignments/iana-ipv4-special-registry: private, loopback,
// link-local, shared (CGNAT), reserved, for documentation, for measurements, multicast.
var notPublic = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's platform, which answers its virtual machines alone
)

// public6 are the allocated IPv6 addresses, and notPublic6 those among them that are no server on
// the internet, by
// https://www.iana.org/assignments/iana-ipv6-special-registry. Those with an IPv4 address
// inside them lead to that one: Teredo in 2001::/23, 6to4 in 2002::/16. Mapped, compatible and
// NAT64 addresses are not in public6.
var (
	public6    = netip.MustParsePrefix("2000::/3")
	notPublic6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)

func prefixes(list ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, p := range list {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return parsed
}

// isPublic reports whether an address is one of a server on the internet.
func isPublic(a netip.Addr) bool {
	has := func(p netip.Prefix) bool { return p.Contains(a) }
	if a.Is4() {
		return !slices.ContainsFunc(notPublic, has)
	}
	return a.Zone() == "" && public6.Contains(a) && !slices.ContainsFunc(notPublic6, has)
}

// unreadable are the ports from 1024 on that belong to other protocols, by
// https://fetch.spec.whatwg.org/#port-blocking.
var unreadable = []int{1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}

// errNotPublic says of a server that it may not be read.
var errNotPublic = errors.New("it is not on the public internet, and the operator of this gateway has not allowed it")

// checkURL returns an error if a URL may not be read, whatever its host's addresses are.
func (f *Fetcher) checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("a URL begins with https:// or http://")
	case u.User != nil:
		return errors.New("a URL with a user name or password in it is not read")
	case u.Hostname() == "" || strings.Contains(u.Hostname(), "%"):
		return errors.New("the URL names no host")
	case f.isAllowed(hostPort(u)):
		return nil
	}
	if port, err := strconv.Atoi(portOf(u)); err != nil || port != 80 && port != 443 && (port < 1024 || port > 65535 || slices.Contains(unreadable, port)) {
		return errors.New("pages are not read from port " + portOf(u))
	}
	host := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(host); err == nil { // as the request has it: digits and dots of other scripts become common ones
		host = ascii
	}
	if address, err := netip.ParseAddr(host); err == nil {
		if !isPublic(address) {
			return errNotPublic
		}
	} else if endsInNumber.MatchString(host) {
		return errors.New("an IP address is written in full, such as 1.1.1.1")
	}
	return nil
}

// endsInNumber matches hosts that are short or old spellings of IPv4 addresses, such as
// 2130706433, 0x7f.1 and 0177.0.0.1, by https://url.spec.whatwg.org/#ends-in-a-number-checker.
var endsInNumber = regexp.MustCompile(`(?i)(^|\.)(\d+|0x[0-9a-f]*)\.?$`)

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// hostPort returns the server of a URL as host:port.
func hostPort(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u))
}

// isAllowed reports whether the configuration names a server.
func (f *Fetcher) isAllowed(server string) bool {
	return slices.ContainsFunc(f.config.AllowPrivate, func(s string) bool { return strings.EqualFold(s, server) })
}

// dial connects to a server that is allowed, or whose address is public. The address is
// checked when it is connected to, after its name was looked up: what the name meant before,
// or means later, has no influence.
func (f *Fetcher) dial(ctx context.Context, network, server string) (net.Conn, error) {
	dialer := net.Dialer{Resolver: f.resolver}
	if !f.isAllowed(server) && f.config.Proxy == "" {
		dialer.Control = f.checkAddress
	}
	return dialer.DialContext(ctx, network, server)
}

// checkAddress refuses to connect to an address that is not public, or is this machine's own.
func (f *Fetcher) checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(to.Addr()) {
		return errNotPublic
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return errNotPublic
	}
	for _, a := range own {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.Equal(to.Addr().AsSlice()) {
			return errNotPublic
		}
	}
	return nil
}
