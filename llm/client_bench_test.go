package llm_test

import (
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// BenchmarkComplete is a whole call with a short answer, server included, as
// two hundred chats make them at once.
func BenchmarkComplete(b *testing.B) {
	server := llmtest.New(b)
	server.Quiet()
	client := llm.NewClient(hasty(server), nil)
	req := ask("Hello, how are you?")
	b.SetParallelism(100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.Complete(b.Context(), req, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
