package faulttest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/tools/mcp/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	runWatched()
	// The tests wait most of the time; -parallel sets another number.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	gatewaytest.Main(m)
}
