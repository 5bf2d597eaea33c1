package browsertest

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// screenshots is where `make screenshots` wants pictures of the pages.
var screenshots = flag.String("screenshots", "", "write pictures of the pages to this `folder`")

var (
	binary  func() (path string, err error) // the gateway under test, built by the first test
	chrome  context.Context                 // the browser, nil where there is none
	skipped = "there is no Chromium here, so nothing is looked at in a browser; on Debian: apt-get install chromium"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	path := findBrowser()
	if path == "" {
		fmt.Println(skipped)
		return m.Run() // which skips each test by name
	}
	dir, err := os.MkdirTemp("", "parley-browsertest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "gateway")) })
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun}
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	browser, endBrowser := chromedp.NewContext(allocator)
	defer endBrowser()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "starting Chromium:", err)
		return 1
	}
	chrome = browser
	return m.Run()
}

// build builds the gateway. The go command takes the result of a test from its
// cache unless a file has changed that the test itself has looked at; a build is
// no such look. So every folder is listed here, with the files in it, and from a
// test: what TestMain does beside the tests is not noted.
func build(path string) (string, error) {
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("looking at the sources: %w", err)
	}
	command := exec.Command("go", "build", "-tags=sqlite_fts5", "-o", path, "./cmd/gateway")
	command.Dir = ".."
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	return path, nil
}

func findBrowser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
