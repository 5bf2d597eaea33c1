package console_test

import (
	"strings"
	"testing"

	"parley/cluster/clustertest"
	"parley/console"
)

// The overview shows the nodes of a cluster, and none for a SQLite file.
func TestTheConsoleShowsNodes(t *testing.T) {
	t.Parallel()
	alone := newConsoleHarness(t, nil)
	if strings.Contains(alone.browser.Page("/console/"), "Nodes") {
		t.Error("a database that is a file has nodes")
	}
	url := clustertest.Database(t)
	d := newConsoleHarness(t, func(p *console.Deps) { p.Store.Join(clustertest.Join(t, url, "<here>")) })
	release, err := d.store.Lock("telegram:chat:42")
	d.must(err)
	defer release()
	d.shows(d.browser.Page("/console/"), "Nodes", "&lt;here&gt;", `<span class="chip serving">serving</span>`, `<td class="n">1</td>`)
}
