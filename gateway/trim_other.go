//go:build !linux

package gateway

// trimC is for Linux, where the C library keeps what was freed.
func trimC() {}
