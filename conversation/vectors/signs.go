package vectors

import (
	"context"
	"encoding/json"
	"math/bits"
	"sync"

	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// The signs of long sessions are kept in memory, so that a search in one compares words of
// 64 bits instead of reading megabytes through SQLite. Vectors are only ever added behind
// those that a conversation has, so each search reads what is new. A message that was
// deleted meanwhile costs a place among those that are compared exactly, no more.

// maxSigns is how many bytes of signs are kept, over all sessions.
const maxSigns = 64 << 20

// signs are those of one conversation: of each chunk of a message its id, and a bit for each
// dimension, in whole words.
type signs struct {
	generation Generation
	ids        []int64
	bits       []uint64
	used       int64 // when, by signCache.clock
}

func (s *signs) bytes() int { return 8 * (len(s.ids) + len(s.bits)) }

// last returns the seq of the newest message.
func (s *signs) last() int64 {
	if len(s.ids) == 0 {
		return 0
	}
	return wordindex.SeqOf(s.ids[len(s.ids)-1])
}

// add appends the signs of a message, each chunk of which has so many bytes.
func (s *signs) add(id int64, chunks string, size int) {
	for ; len(chunks) >= size; chunks = chunks[size:] {
		s.ids = append(s.ids, id)
		s.bits = appendWords(s.bits, chunks[:size])
	}
}

// appendWords appends bytes in words of eight, the last one filled with zeros.
func appendWords(words []uint64, bytes string) []uint64 {
	for ; len(bytes) >= 8; bytes = bytes[8:] {
		words = append(words, word(bytes))
	}
	if len(bytes) > 0 {
		var rest [8]byte
		copy(rest[:], bytes)
		words = append(words, word(string(rest[:])))
	}
	return words
}

// agreements calls do with the id of each message, the oldest first, and how many signs it
// has in common with a query.
func (s *signs) agreements(query []uint64, length int, do func(id int64, agree int)) {
	best := 0
	for i, id := range s.ids {
		differ := 0
		for j, word := range s.bits[i*len(query) : (i+1)*len(query)] {
			differ += bits.OnesCount64(word ^ query[j])
		}
		best = max(best, length-differ)
		if i+1 == len(s.ids) || s.ids[i+1] != id {
			do(id, best)
			best = 0
		}
	}
}

// signCache holds the signs of conversations by their row ids. It is safe for concurrent use.
type signCache struct {
	mu    sync.Mutex
	known map[int64]signs
	clock int64
	bytes int
}

// cacheKey is the key of a database's signCache.
type cacheKey struct{}

// of returns the signs of conversations, which it reads as far as it does not know them.
func (c *signCache) of(ctx context.Context, q db.Querier, generation Generation, length int, conversations []Conversation) ([]signs, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]signs, len(conversations))
	at := map[int64]int{}
	var lacking []span
	for i, conversation := range conversations {
		if s, known := c.known[conversation.ID]; known && s.generation == generation && s.last() <= conversation.Messages {
			list[i] = s
		}
		list[i].generation = generation
		at[conversation.ID] = i
		if first := list[i].last() + 1; first <= conversation.Messages {
			lacking = append(lacking, span{conversation.ID, first, conversation.Messages})
		}
	}
	for _, piece := range pieces(lacking) {
		text, err := readPiece(ctx, q, piece, "vector_signs", "signs", generation)
		if err != nil {
			return nil, err
		}
		each(text, signBytes(length), func(id int64, chunks string) {
			if i, asked := at[wordindex.ConversationOf(id)]; asked {
				list[i].add(id, chunks, signBytes(length))
			}
		})
	}
	c.put(conversations, list)
	return list, nil
}

// put stores signs, and evicts those that were used least recently.
func (c *signCache) put(conversations []Conversation, list []signs) {
	c.clock++
	for i, conversation := range conversations {
		before := c.known[conversation.ID]
		list[i].used = c.clock
		c.bytes += list[i].bytes() - before.bytes()
		c.known[conversation.ID] = list[i]
	}
	for c.bytes > maxSigns && len(c.known) > 0 {
		oldest := int64(0)
		for id, s := range c.known {
			if oldest == 0 || s.used < c.known[oldest].used {
				oldest = id
			}
		}
		forgotten := c.known[oldest]
		c.bytes -= forgotten.bytes()
		delete(c.known, oldest)
	}
}

// readPiece returns what a table has of some ranges of rows, as one text.
func readPiece(ctx context.Context, q db.Querier, ranges [][2]int64, table, column string, generation Generation) (string, error) {
	list, err := json.Marshal(ranges)
	if err != nil {
		return "", err
	}
	return readText(ctx, q, `
		SELECT `+db.Either(`group_concat(`+column+`, '') FROM json_each(?) j CROSS JOIN `,
		`string_agg(`+column+`, '' ORDER BY v.id) FROM json_array_elements(CAST(CAST(? AS text) AS json)) j(value) CROSS JOIN `)+table+` v
		WHERE v.id BETWEEN CAST(j.value ->> 0 AS BIGINT) AND CAST(j.value ->> 1 AS BIGINT) AND v.generation = ?`, string(list), generation)
}
