//go:build !linux || !amd64

package faulttest

func runWatched() {}
