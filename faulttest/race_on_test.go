//go:build race

package faulttest

// raceEnabled builds the gateway with the race detector when the tests are.
const raceEnabled = true
