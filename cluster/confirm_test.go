package cluster_test

import (
	"context"
	"testing"
	"time"

	"parley/cluster/clustertest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// While a node can't renew its membership, it does not begin what it could not store.
func TestConfirmWaitsWhileRenewalsFail(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, clustertest.Database(t))
	node := clustertest.Join(t, proxy.URL(), "a")
	over, end := context.WithCancel(t.Context())
	end()
	isConfirmed := func() bool { return node.Confirm(over) == nil }
	await := func(what string, happened func() bool) {
		t.Helper()
		for deadline := time.Now().Add(waittest.Patience); !happened(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("waited in vain for " + what)
			}
		}
	}
	await("the first renewal", isConfirmed)
	proxy.Interrupt()
	await("a renewal to fail", func() bool { return !isConfirmed() })
	confirmed := make(chan error, 1)
	go func() { confirmed <- node.Confirm(t.Context()) }()
	proxy.Resume()
	if err := <-confirmed; err != nil || !node.Holds(t.Context()) {
		t.Error(err)
	}
}
