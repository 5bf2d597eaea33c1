package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/gateway/gatewaytest"
)

// A person gives the page a file, sees how far the import is, leaves the page, and finds
// the chats and the result when coming back.
func TestImportIsFollowedInThePage(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	const talks = 200
	var file strings.Builder
	for i := range talks {
		fmt.Fprintf(&file, `{"id":%d,"title":"talk %d","messages":[{"role":"user","content":"question"},{"role":"assistant","content":"answer"}]}`+"\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "talks.jsonl")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll, echo)
	b := openTab(t)
	b.open(g.URL + "/import")
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{path}), chromedp.Click(".import button.primary"))
	b.leadsTo("Importing talks.jsonl")
	b.await("document.querySelector('#import-status progress')?.value > 0")
	b.shot("importing")
	b.open(g.URL)
	b.open(g.URL + "/import")
	b.leadsTo(fmt.Sprintf("%d conversations are in your list of chats now", talks))
	b.await("!document.querySelector('[data-under-way]') && document.querySelectorAll('#chats [data-name]').length === 100")
	b.shot("imported")
	b.clean()
}
