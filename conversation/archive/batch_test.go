package archive

import (
	"strings"
	"testing"

	"parley/conversation"
)

// Rows and bytes of each transaction of an import are bounded, so that other chats do not wait for a long
// one.
func TestImportIsStoredInSmallSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		messages, bytes, want int
	}{
		{10_000, 10, 200},
		{10, 10, 10},
		{10, importBytes / 3, 3},
		{10, 2 * importBytes, 1},
	} {
		list := make([]conversation.Message, tt.messages)
		for i := range list {
			list[i].Content = strings.Repeat("x", tt.bytes)
		}
		if n := batchLength(list); n != tt.want {
			t.Errorf("%d messages of %d bytes: %d in one transaction, want %d", tt.messages, tt.bytes, n, tt.want)
		}
	}
}
