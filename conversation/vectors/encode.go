package vectors

import (
	"encoding/binary"
	"math"
)

// A vector is stored twice, so that a search in a long session reads little. Both forms begin with the id of the message
// (8 bytes) and the number of its chunks (1 byte), so that those of many messages can be read as one text, which costs a
// fraction of a row each. Then follows for each chunk
//
//   - in the table vectors a scale (4 bytes, a float) and a byte for each dimension: the vector has the length 1, and its
//     values are the bytes times the scale;
//   - in the table vector_signs a bit for each dimension, 1 where the value is positive, in whole bytes.

// headerBytes is what stands before the chunks, scaleBytes what stands before the dimensions of each.
const (
	headerBytes = 8 + 1
	scaleBytes  = 4
)

// encode returns both forms of a message's vectors, which all have one length, or nothing if none of them points
// anywhere.
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

// quantised is a vector of length 1: its values times the scale.
type quantised struct {
	scale  float32
	values []int8
}

// quantise brings a vector to the length 1 and its values to bytes. ok is false for one that points nowhere.
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

func signsOf(vector []float32) []byte {
	signs := make([]byte, signBytes(len(vector)))
	for i, value := range vector {
		if value > 0 {
			signs[i/8] |= 1 << (i % 8)
		}
	}
	return signs
}

// signBytes returns how many bytes the signs of a vector take.
func signBytes(length int) int { return (length + 7) / 8 }

// near is a message with the likeness of its nearest chunk: the cosine of the angle, or, among signs, how many agree.
type near struct {
	id    int64
	score float64
}

// each calls do with the id of each message in a text that many were read as, and with its chunks, of so many bytes each.
// It ends where the text is not as encode has written it.
func each(text string, chunkBytes int, do func(id int64, chunks string)) {
	for len(text) > headerBytes {
		id := int64(word(text))
		size := int(text[headerBytes-1]) * chunkBytes
		text = text[headerBytes:]
		if size > len(text) {
			return
		}
		do(id, text[:size])
		text = text[size:]
	}
}

// likeness returns the cosine of the angle between a query and the nearest of some chunks of a message.
func (q quantised) likeness(chunks string) float64 {
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

// word returns the first 8 bytes of a text as a number.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
