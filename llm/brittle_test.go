package llm

import (
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// panickingCodec is a tokenizer that panics on one word, as a bug would.
type panickingCodec struct{ tokenizer.Codec }

func (b panickingCodec) Count(text string) (int, error) {
	if strings.Contains(text, "poison") {
		panic("a bug")
	}
	return b.Codec.Count(text)
}

func (b panickingCodec) Encode(text string) ([]uint, []string, error) {
	if strings.Contains(text, "poison") {
		panic("a bug")
	}
	return b.Codec.Encode(text)
}

// A message on which the tokenizer panics is answered like any other. It is counted before its run begins,
// so that a panic would end the gateway at every start.
func TestTextThatBreaksTheTokenizerIsCountedByItsBytes(t *testing.T) {
	t.Parallel()
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	c := &Counter{codec: func() tokenizer.Codec { return panickingCodec{codec} }}
	if got := c.Text("poison ivy"); got != len("poison ivy") {
		t.Errorf("counted as %d tokens", got)
	}
	if got := c.Message(Message{Role: "user", Content: "poison"}); got < len("poison") {
		t.Errorf("the message counts %d tokens", got)
	}
	long := strings.Repeat("poison ivy ", 100)
	if head, tail := c.Cut(long, 50); head == "" || tail == "" || len(head)+len(tail) > 50 ||
		!strings.HasPrefix(long, head) || !strings.HasSuffix(long, tail) {
		t.Errorf("cut to %q and %q", head, tail)
	}
	if got := c.Text("ivy"); got != NewCounter("").Text("ivy") {
		t.Errorf("an ordinary text has %d tokens", got)
	}
}
