//go:build !linux

package main

// trimC is for Linux, where the C library keeps what was freed.
func trimC() {}
