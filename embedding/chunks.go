package embedding

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// chunkBytes is the longest text that gets one vector: about 500 tokens, which the smaller models take whole. A vector
	// of a longer text would say little of each of its parts.
	chunkBytes = 2000

	// maxChunks is how many chunks of a message get vectors. What comes behind them, beyond 32,000 bytes, is mostly
	// pasted, and is found by its words.
	maxChunks = 16
)

// chunksOf cuts a text into chunks, between lines or words where there are any in their last quarter. A text of spaces alone
// has none.
func chunksOf(text string) (chunks []string) {
	text = strings.TrimSpace(text)
	for text != "" && len(chunks) < maxChunks {
		end := chunkEnd(text)
		if chunk := strings.TrimSpace(text[:end]); chunk != "" {
			chunks = append(chunks, chunk)
		}
		text = strings.TrimLeftFunc(text[end:], unicode.IsSpace)
	}
	return chunks
}

func chunkEnd(text string) int {
	if len(text) <= chunkBytes {
		return len(text)
	}
	end := chunkBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	const least = chunkBytes * 3 / 4
	if at := strings.LastIndexByte(text[:end], '\n'); at >= least {
		return at
	}
	if at := strings.LastIndexFunc(text[:end], unicode.IsSpace); at >= least {
		return at
	}
	return end
}
