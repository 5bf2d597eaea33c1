package console_test

import (
	"strings"
	"testing"

	"parley/cluster/clustertest"
	"parley/console"
)

// The overview shows the nodes of a cluster, and nothing of them where the database is a file.
func TestTheConsoleShowsNodes(t *testing.T) {
	t.Parallel()
	alone := newDesk(t, nil)
	if strings.Contains(alone.browser.Page("/console/"), "Nodes") {
		t.Error("a database that is a file has nodes")
	}
	url := clustertest.Database(t)
	d := newDesk(t, func(p *console.Deps) { p.Store.Join(clustertest.Join(t, url, "<here>")) })
	release, err := d.store.Lock("telegram:chat:42")
	d.must(err)
	defer release()
	d.shows(d.browser.Page("/console/"), "Nodes", "&lt;here&gt;", `<span class="chip serving">serving</span>`, `<td class="n">1</td>`)
}
