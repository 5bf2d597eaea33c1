package browsertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/tools/mcp/mcptest"

	"github.com/chromedp/chromedp"
)

// screenshots is where `make screenshots` wants pictures of the pages.
var screenshots = flag.String("screenshots", "", "write pictures of the pages to this `folder`")

var (
	chrome  context.Context // the browser, nil where there is none
	skipped = "there is no Chromium here, so nothing is looked at in a browser; on Debian: apt-get install chromium"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	flag.Parse()
	if err := runAll(m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runAll(m *testing.M) error {
	path := findBrowser()
	if testing.Short() {
		skipped = "skipped with -short: it starts a browser"
		gatewaytest.Main(m)
		return nil
	}
	if path == "" {
		fmt.Println(skipped)
		gatewaytest.Main(m) // which skips each test by name
		return nil
	}
	dir, err := os.MkdirTemp("", "parley-browsertest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun}
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	browser, endBrowser := chromedp.NewContext(allocator)
	defer endBrowser()
	if err := chromedp.Do(browser); err != nil {
		return fmt.Errorf("start Chromium: %w", err)
	}
	chrome = browser
	gatewaytest.Main(m)
	return nil
}

func findBrowser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
