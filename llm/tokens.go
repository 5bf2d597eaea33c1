package llm

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
	"github.com/tiktoken-go/tokenizer/codec"
)

const (
	// countSlice is how many bytes of a long text are counted at a time. The
	// tokenizer's time grows with the square of a run of blanks and line breaks, and
	// it needs many times the memory of a text.
	countSlice = 2 << 10

	// countExactly is how many bytes of a text are counted. Each byte after them is
	// taken for a token, which is an upper bound.
	countExactly = 256 << 10
)

// tokensPerImage is the most that an image costs in high detail, by OpenAI's "Images
// and vision" guide for gpt-4o: 85, and 170 for each of up to 6 tiles.
const tokensPerImage = 85 + 6*170

// The tokens of a message beside its text, by the OpenAI cookbook
// (https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken,
// sections 6 and 7). Other servers frame messages by their own templates, at
// about the same cost.
const (
	tokensPerMessage  = 3
	tokensPerRole     = 1
	tokensPerName     = 1
	tokensPerFunction = 7
	tokensPerTools    = 12
	tokensPerCall     = 3 // the cookbook gives no number: assumed to cost as much as a message
)

// Counter counts tokens: exactly for OpenAI's models, approximately for others. It loads
// the vocabulary at the first count. It is safe for concurrent use.
type Counter struct {
	codec func() tokenizer.Codec
}

// NewCounter returns the counter for a model. For an unknown name it counts as for
// OpenAI's current models.
func NewCounter(model string) *Counter {
	// Not through tokenizer.Get, which would link three more vocabularies: 4 MB.
	if isOldGPT(model) {
		return &Counter{codec: sync.OnceValue(func() tokenizer.Codec { return codec.NewCl100kBase() })}
	}
	return &Counter{codec: sync.OnceValue(func() tokenizer.Codec { return codec.NewO200kBase() })}
}

// isOldGPT reports whether the model is of the generation before gpt-4o: gpt-3.5,
// gpt-4, gpt-4-turbo, also as "openai/gpt-4" or "ft:gpt-4-0613:...".
func isOldGPT(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	model = strings.TrimPrefix(model, "ft:")
	for _, family := range []string{"gpt-4", "gpt-3.5", "gpt-35"} {
		if rest, ok := strings.CutPrefix(model, family); ok {
			return rest == "" || family != "gpt-4" || rest[0] == '-' || rest[0] == ':'
		}
	}
	return false
}

// Text returns the number of tokens of a text of any bytes. It may count too many, but
// never too few: one for each 2 KiB where there are no spaces and line breaks, and every
// byte beyond 256 KiB as a token.
func (c *Counter) Text(text string) int {
	total := 0
	if len(text) > countExactly {
		at := runeStart(text, countExactly)
		total, text = len(text)-at, text[:at]
	}
	var last slice
	for len(text) > countSlice {
		at := wordStart(text, countSlice)
		total += last.count(c, text[:at])
		text = text[at:]
	}
	return total + c.count(text)
}

// slice is the slice of a text that was counted last. Its zero value is the empty one.
type slice struct {
	text   string
	tokens int
}

// count counts the next slice of a text. One that equals the last is not counted again:
// a mebibyte of blanks takes seconds otherwise.
func (s *slice) count(c *Counter, text string) int {
	if text != s.text {
		s.text, s.tokens = text, c.count(text)
	}
	return s.tokens
}

// wordStart returns the last index up to at where a text can be split without a change
// in the sum of tokens, since OpenAI's tokenizers start anew there: at a space between
// two words or the first letter of a line. Where there is none, it returns the start of
// a rune.
func wordStart(text string, at int) int {
	for i := at; i > 0; i-- {
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i:])
		if after == ' ' && !unicode.IsSpace(before) {
			if next, _ := utf8.DecodeRuneInString(text[i+1:]); !unicode.IsSpace(next) {
				return i
			}
		}
		if before == '\n' && unicode.IsLetter(after) {
			return i
		}
	}
	return runeStart(text, at)
}

// Message returns the number of tokens of a message in a list, framing included.
func (c *Counter) Message(m Message) int {
	total := tokensPerMessage + tokensPerRole + c.Text(m.Text()) + len(m.Images)*tokensPerImage
	if m.Name != "" {
		total += tokensPerName + c.Text(m.Name)
	}
	if m.ToolCallID != "" {
		total += c.Text(m.ToolCallID)
	}
	for _, call := range m.ToolCalls {
		total += tokensPerCall + c.Text(call.ID) + c.Text(call.Name) + c.Text(call.Arguments)
	}
	return total
}

// Tools returns the number of tokens that tools add to a request.
func (c *Counter) Tools(tools []Tool) int {
	if len(tools) == 0 {
		return 0
	}
	total := tokensPerTools
	for _, t := range tools {
		total += tokensPerFunction + c.Text(t.Name) + c.Text(t.Description) + c.Text(string(t.Parameters))
	}
	return total
}

// Cut returns the beginning and the end of a text that together have about the given
// number of tokens, at most a few more. It cuts between runes. A text that fits is all
// head. The part between the two is not counted, so that a huge text takes no longer
// than a long one.
func (c *Counter) Cut(text string, tokens int) (head, tail string) {
	if tokens <= 0 {
		return "", ""
	}
	if len(text) <= tokens { // a token is at least a byte
		return text, ""
	}
	size, left := c.take(text, tokens-tokens/2, forward)
	head, rest := text[:size], text[size:]
	size, _ = c.take(rest, tokens/2+left, backward)
	if size == len(rest) {
		return text, ""
	}
	return head, rest[len(rest)-size:]
}

type direction bool

const (
	forward  direction = true
	backward direction = false
)

// take returns how many bytes at one end of the text fit into the tokens, and how many
// tokens are left.
func (c *Counter) take(text string, tokens int, from direction) (size, left int) {
	var last slice
	for size < len(text) {
		piece := from.slice(text, size, countSlice)
		n := last.count(c, piece)
		if n > tokens {
			return size + c.fit(piece, tokens, from), 0
		}
		tokens -= n
		size += len(piece)
	}
	return size, tokens
}

// fit returns how many bytes at one end of a small text fit into the tokens, of which
// the text has more.
func (c *Counter) fit(text string, tokens int, from direction) int {
	size := tokens // a token is at least a byte
	if pieces := c.pieces(text); len(pieces) > tokens {
		if from == backward {
			pieces = pieces[len(pieces)-tokens:]
		}
		size = len(strings.Join(pieces[:tokens], ""))
	}
	return len(from.slice(text, 0, size))
}

// pieces returns the tokens of a small text as texts. It returns nil where these do not
// add up to the text, since it is not UTF-8 or the tokenizer fails.
func (c *Counter) pieces(text string) (pieces []string) {
	defer func() {
		if recover() != nil {
			pieces = nil
		}
	}()
	_, pieces, err := c.codec().Encode(text)
	if err != nil || strings.Join(pieces, "") != text {
		return nil
	}
	return pieces
}

// slice returns up to size bytes that follow the first skip bytes, seen from that end of
// the text. It does not cut a rune.
func (d direction) slice(text string, skip, size int) string {
	if d == forward {
		text = text[skip:]
		return text[:runeStart(text, size)]
	}
	text = text[:len(text)-skip]
	if size >= len(text) {
		return text
	}
	return text[runeEnd(text, len(text)-size):]
}

// runeStart returns the last index up to at where a rune begins, or at itself where the
// bytes are not UTF-8.
func runeStart(text string, at int) int {
	if at >= len(text) {
		return len(text)
	}
	for i := at; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	return at
}

// runeEnd returns the first index from at on where a rune ends, or at itself where the
// bytes are not UTF-8.
func runeEnd(text string, at int) int {
	for i := at; i < at+utf8.UTFMax; i++ {
		if i >= len(text) || utf8.RuneStart(text[i]) {
			return i
		}
	}
	return at
}

// count counts the tokens of a text of moderate length. Where the tokenizer panics, it
// returns an upper bound: a waiting message is counted at every start, and must not end
// the gateway each time.
func (c *Counter) count(text string) (tokens int) {
	if text == "" {
		return 0
	}
	defer func() {
		if recover() != nil {
			tokens = len(text)
		}
	}()
	if n, err := c.codec().Count(text); err == nil {
		return n
	}
	return (len(text) + 3) / 4 // the usual length of a token in English
}
