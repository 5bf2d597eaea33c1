package vectors

import (
	"encoding/binary"
	"math"
)

// The vectors of a message are stored in two forms, one for each chunk of its text. A search in a long session reads the
// short form of all messages, and the long form of a few. Both forms begin with the row of the message in the index of
// words (8 bytes, little-endian) and the number of its chunks (1 byte), so that the forms of many messages can be read
// as one concatenated value, which costs a fraction of reading them row by row. Then follows for each chunk
//
//   - in the table vectors: a scale (4 bytes, a float) and one signed byte for each dimension. The bytes times the scale
//     are the values of the vector, which has the length 1.
//   - in the table vector_signs: one bit for each dimension, 1 if the value is positive, padded to whole bytes.

// headerBytes is the number of bytes before the chunks, scaleBytes the number of bytes before the dimensions of a chunk.
const (
	headerBytes = 8 + 1
	scaleBytes  = 4
)

// encode returns both forms of a message's vectors, one vector for each chunk. All vectors must have the same number of
// dimensions, and there may be at most 255. It leaves out vectors that quantise refuses, and returns nil if none is left.
func encode(id int64, chunks [][]float32) (vector, signs []byte) {
	vector, signs = header(id), header(id)
	for _, chunk := range chunks {
		quantised, ok := quantise(chunk)
		if !ok {
			continue
		}
		vector = binary.LittleEndian.AppendUint32(vector, math.Float32bits(quantised.scale))
		for _, value := range quantised.values {
			vector = append(vector, byte(value))
		}
		signs = append(signs, signsOf(chunk)...)
		vector[headerBytes-1]++
		signs[headerBytes-1]++
	}
	if vector[headerBytes-1] == 0 {
		return nil, nil
	}
	return vector, signs
}

func header(id int64) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(id)), 0)
}

// quantised is a vector of length 1, whose values are those of the list times the scale.
type quantised struct {
	scale  float32
	values []int8
}

// quantise scales a vector to the length 1 and rounds its values to signed bytes. ok is false for a vector without a direction:
// of the length 0, or with values that are not finite.
func quantise(vector []float32) (q quantised, ok bool) {
	var sum, largest float64
	for _, value := range vector {
		sum += float64(value) * float64(value)
		largest = max(largest, math.Abs(float64(value)))
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return q, false
	}
	q.scale = float32(largest / math.MaxInt8 / math.Sqrt(sum))
	q.values = make([]int8, len(vector))
	for i, value := range vector {
		q.values[i] = int8(math.Round(float64(value) / largest * math.MaxInt8))
	}
	return q, true
}

// signsOf returns the signs of a vector: one bit for each dimension, 1 if the value is positive.
func signsOf(vector []float32) []byte {
	signs := make([]byte, signBytes(len(vector)))
	for i, value := range vector {
		if value > 0 {
			signs[i/8] |= 1 << (i % 8)
		}
	}
	return signs
}

// signBytes returns how many bytes the signs of a vector with this many dimensions take.
func signBytes(dimensions int) int { return (dimensions + 7) / 8 }

// scored is a message with the score of its nearest chunk: the cosine similarity, or the number of equal signs.
type scored struct {
	id    int64 // the row of the message in the index of words
	score float64
}

// eachMessage calls do for each message of a text that consists of forms that encode has made: with the row of the message
// in the index of words, and with its chunks, each of which takes chunkBytes. It ends at the first incomplete message.
func eachMessage(text string, chunkBytes int, do func(id int64, chunks string)) {
	for len(text) > headerBytes {
		id := int64(uint64At(text))
		size := int(text[headerBytes-1]) * chunkBytes
		text = text[headerBytes:]
		if size > len(text) {
			return
		}
		do(id, text[:size])
		text = text[size:]
	}
}

// similarity returns the cosine similarity of a query and the nearest of a message's chunks.
func (q quantised) similarity(chunks string) float64 {
	best := math.Inf(-1)
	for size := scaleBytes + len(q.values); len(chunks) >= size; chunks = chunks[size:] {
		scale := math.Float32frombits(uint32(chunks[0]) | uint32(chunks[1])<<8 | uint32(chunks[2])<<16 | uint32(chunks[3])<<24)
		values := chunks[scaleBytes:size]
		var sum int32
		for i, value := range q.values {
			sum += int32(value) * int32(int8(values[i]))
		}
		best = max(best, float64(sum)*float64(scale)*float64(q.scale))
	}
	return best
}

// uint64At returns the first 8 bytes of a text as a little-endian number.
func uint64At(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
