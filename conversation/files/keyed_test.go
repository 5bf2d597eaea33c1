package files

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// A program sends a file several times at once, since it got no answer, over several gateways. Each time it is told of the same upload,
// and the file is kept once. Another file with the same key is refused.
func TestRepeatedUploadIsKeptOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	nodes := make([]*conversation.Store, 2)
	for i := range nodes {
		store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		nodes[i] = store
	}
	for name, stores := range map[string][]*conversation.Store{"by default": {storetest.New(t)}, "over two nodes": nodes} {
		upload := func(store *conversation.Store, bytesOf string) (Uploaded, error) {
			return New(store).PutOnce(t.Context(), Upload{Key: kitchen, Name: "a.txt", MediaType: "text/plain", Body: bytes.NewReader([]byte(bytesOf)), Most: 100}, "key-1")
		}
		const times = 8
		var got [times]Uploaded
		var all sync.WaitGroup
		for i := range times {
			all.Go(func() {
				var err error
				if got[i], err = upload(stores[i%len(stores)], "hello"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		for _, one := range got {
			if one.Ref != got[0].Ref || one.Ref == "" {
				t.Errorf("%s: %+v and %+v", name, one, got[0])
			}
		}
		if _, err := upload(stores[0], "other"); !errors.Is(err, conversation.ErrReused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
