package api

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/storetest"
)

// BenchmarkReading reads a conversation of 50 messages, without the network.
func BenchmarkReading(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	if err := storetest.Fill(b.Context(), path, storetest.Filling{First: 1, Sessions: 1, Messages: 50}); err != nil {
		b.Fatal(err)
	}
	store, err := conversation.Open(b.Context(), conversation.Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	handler := New(Deps{Store: store, Feed: activity.NewFeed()}).handler()
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/sessions/telegram:chat:1/messages?view=all", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
