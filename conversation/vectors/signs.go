package vectors

import (
	"context"
	"encoding/json"
	"math/bits"
	"sync"

	"parley/conversation/internal/db"
	"parley/conversation/internal/wordindex"
)

// The signs of long sessions are cached in memory, so that a search compares words of 64 bits
// instead of reading megabytes from the database. New vectors of a conversation always come
// after those it has, so each search reads only the new ones. The signs of a deleted message may
// stay in the cache: the message is then compared with the query in vain, and not found.

// maxSigns is the maximum size of the cache in bytes, over all sessions.
const maxSigns = 64 << 20

// signs has the signs of one conversation, chunk by chunk.
type signs struct {
	generation Generation
	ids        []int64  // for each chunk, the row of its message in the index of words
	bits       []uint64 // for each chunk, one bit for each dimension, padded to whole words
	used       int64    // the time of the last use, in steps of signCache.clock
}

func (s *signs) bytes() int { return 8 * (len(s.ids) + len(s.bits)) }

// last returns the seq of the newest message, 0 if there is none.
func (s *signs) last() int64 {
	if len(s.ids) == 0 {
		return 0
	}
	return wordindex.SeqOf(s.ids[len(s.ids)-1])
}

// add appends the signs of a message, whose chunks take size bytes each.
func (s *signs) add(id int64, chunks string, size int) {
	for ; len(chunks) >= size; chunks = chunks[size:] {
		s.ids = append(s.ids, id)
		s.bits = appendWords(s.bits, chunks[:size])
	}
}

// appendWords appends bytes as little-endian words of 8 bytes. The last word is padded with zeros.
func appendWords(words []uint64, bytes string) []uint64 {
	for ; len(bytes) >= 8; bytes = bytes[8:] {
		words = append(words, uint64At(bytes))
	}
	if len(bytes) > 0 {
		var rest [8]byte
		copy(rest[:], bytes)
		words = append(words, uint64At(string(rest[:])))
	}
	return words
}

// compare calls do for each message, the oldest first, with the highest number of signs that
// one of its chunks has in common with a query of this many dimensions.
func (s *signs) compare(query []uint64, dimensions int, do func(id int64, equal int)) {
	best := 0
	for i, id := range s.ids {
		differ := 0
		for j, word := range s.bits[i*len(query) : (i+1)*len(query)] {
			differ += bits.OnesCount64(word ^ query[j])
		}
		best = max(best, dimensions-differ)
		if i+1 == len(s.ids) || s.ids[i+1] != id {
			do(id, best)
			best = 0
		}
	}
}

// signCache caches the signs of conversations. It is safe for concurrent use.
type signCache struct {
	mu    sync.Mutex
	known map[int64]signs // by the ids of conversations' rows
	clock int64           // counts the calls of put
	bytes int             // the size of all signs in known
}

// cacheKey is the key by which db.DB.Shared holds the signCache of a database.
type cacheKey struct{}

// get returns the signs of conversations, in the same order. It reads those that are not cached.
func (c *signCache) get(ctx context.Context, q db.Querier, generation Generation, dimensions int, conversations []Conversation) ([]signs, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]signs, len(conversations))
	at := map[int64]int{}
	var missing []span
	for i, conversation := range conversations {
		if s, known := c.known[conversation.ID]; known && s.generation == generation && s.last() <= conversation.Messages {
			list[i] = s
		}
		list[i].generation = generation
		at[conversation.ID] = i
		if first := list[i].last() + 1; first <= conversation.Messages {
			missing = append(missing, span{conversation.ID, first, conversation.Messages})
		}
	}
	for _, piece := range pieces(missing) {
		text, err := readPiece(ctx, q, piece, "vector_signs", "signs", generation)
		if err != nil {
			return nil, err
		}
		eachMessage(text, signBytes(dimensions), func(id int64, chunks string) {
			if i, wanted := at[wordindex.ConversationOf(id)]; wanted {
				list[i].add(id, chunks, signBytes(dimensions))
			}
		})
	}
	c.put(conversations, list)
	return list, nil
}

// put caches the signs of conversations. While the cache exceeds maxSigns, it evicts those that were used least recently.
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
		evicted := c.known[oldest]
		c.bytes -= evicted.bytes()
		delete(c.known, oldest)
	}
}

// readPiece returns the forms that a table has of the messages in ranges of rows, as one text.
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
