//go:build !linux

package gateway

// trimC is for Linux, where the C library keeps what was freed.
func trimC() {}

// releaseProgram is for Linux, which counts the pages of the program's file.
func releaseProgram() {}
