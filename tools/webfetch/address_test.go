package webfetch

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// Private addresses, and those that translate to private ones, do not count as public.
func TestOnlyAddressesOfTheInternetArePublic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255",
		"127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
		"192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
		"239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808",
		"64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:db8::1",
		"2002:7f00:1::1", "2002:c0a8:101::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
		"2606:4700:4700::1111%eth0",
	} {
		if isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"} {
		if !isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
}

// Some URLs are refused before any name is looked up.
func TestURLsOfPrivateHostsAreRefused(t *testing.T) {
	t.Parallel()
	f := &Fetcher{config: Config{AllowPrivate: []string{"Wiki.example.org:8443", "10.1.2.3:25", "[::1]:80"}}}
	for _, text := range []string{
		"http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0177.0.0.1/",
		"http://017700000001/", "http://127.0.0.1./", "http://0/", "http://0x/", "http://127.0.1/", "http://example.0x7f/", "http://a.1/",
		"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[0:0:0:0:0:ffff:8.8.8.8]/", "http://[fe80::1%25eth0]/", "http://[::]/",
		"http://169.254.169.254/latest/meta-data/", "http://user@example.org/", "http://user:password@example.org/", "http://example.org@127.0.0.1/",
		"file:///etc/passwd", "gopher://example.org/", "ftp://example.org/", "data:text/html,hello", "javascript:alert(1)", "example.org", "//example.org", "/etc/passwd",
		"http://", "https:///path", "http://:80/", "http://example.org:22/", "http://example.org:0/", "http://example.org:6667/", "http://example.org:65536/",
		"https://example.org:25/", "http://[::1]:81/", "http://10.1.2.3/", "http://exam%70le.org%2f/",
	} {
		u, err := url.Parse(text)
		if err == nil && f.checkURL(u) == nil {
			t.Errorf("%s is read", text)
		}
	}
	for _, text := range []string{
		"http://example.org", "HTTPS://EXAMPLE.ORG/", "https://example.org:443/", "http://example.org:8080/a?b#c", "https://1.1.1.1/", "https://[2606:4700:4700::1111]/", "https://münchen.example/",
		"https://wiki.example.org:8443/", "http://10.1.2.3:25/", "http://[::1]/", "https://1a.example/", "https://0x7g/",
	} {
		u, err := url.Parse(text)
		if err != nil || f.checkURL(u) != nil {
			t.Errorf("%s is refused: %v", text, f.checkURL(u))
		}
	}
}

// The address of the connection is checked, whatever the host name resolved to before.
func TestAddressIsCheckedAtTheConnection(t *testing.T) {
	t.Parallel()
	f := &Fetcher{}
	for address, public := range map[string]bool{
		"1.1.1.1:443": true, "[2606:4700:4700::1111]:443": true, "10.0.0.1:80": false, "[::1]:80": false, "[::ffff:10.0.0.1]:80": false, "[fe80::1%lo]:80": false, "nonsense": false,
	} {
		if err := f.checkAddress("tcp", address, nil); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestConfigNamesServersByHostAndPort(t *testing.T) {
	t.Parallel()
	var refused []string
	good := []string{"wiki:80", "10.0.0.1:8080", "[::1]:443"}
	bad := []string{"wiki", "http://wiki:80", "10.0.0.0/8:80", "*.example.org:80", ":80", "wiki:", "wiki:http", "wiki:70000", "a@wiki:80"}
	Config{AllowPrivate: append(good, bad...)}.CheckKeys(func(_, found, _ string) { refused = append(refused, strings.Trim(found, `"`)) })
	if strings.Join(refused, " ") != strings.Join(bad, " ") {
		t.Errorf("refused are %q", refused)
	}
}
