//go:build !linux

package gatewaytest

import (
	"net"
	"testing"
)

// Address returns "127.0.0.1:PORT" with a port that is free now, for one server after the other.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}
