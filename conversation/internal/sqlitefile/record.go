package sqlitefile

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode/utf8"
)

var errRecord = errors.New("the row is damaged")

// varint reads a number of up to 9 bytes and returns its length, or 0 if b ends before.
func varint(b []byte) (value uint64, n int) {
	for n < 9 && n < len(b) {
		c := b[n]
		n++
		if n == 9 {
			return value<<8 | uint64(c), n
		}
		value = value<<7 | uint64(c&0x7F)
		if c < 0x80 {
			return value, n
		}
	}
	return 0, 0
}

// parseRecord reads the values of a row: nil, int64, float64, string or []byte.
// It returns an error unless the bytes are exactly one record, which detects most damage.
func parseRecord(b []byte) (values []any, err error) {
	size, n := varint(b)
	if n == 0 || size < uint64(n) || size > uint64(len(b)) {
		return nil, errRecord
	}
	types, body := b[n:size], b[size:]
	for len(types) > 0 {
		kind, n := varint(types)
		if n == 0 {
			return nil, errRecord
		}
		types = types[n:]
		length := valueLength(kind)
		if length > uint64(len(body)) {
			return nil, errRecord
		}
		value, err := parseValue(kind, body[:length])
		if err != nil {
			return nil, err
		}
		values, body = append(values, value), body[length:]
	}
	if len(body) > 0 {
		return nil, errRecord
	}
	return values, nil
}

// valueLength returns the number of bytes of a value of this type.
func valueLength(kind uint64) uint64 {
	switch {
	case kind >= 12:
		return (kind - 12) / 2
	case kind == 5:
		return 6
	case kind == 6 || kind == 7:
		return 8
	case kind >= 8:
		return 0
	}
	return kind
}

func parseValue(kind uint64, b []byte) (any, error) {
	switch kind {
	case 0:
		return nil, nil
	case 8, 9:
		return int64(kind - 8), nil
	case 7:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	case 10, 11: // reserved by SQLite, and never in a file
		return nil, errRecord
	}
	if kind < 7 {
		value := int64(int8(b[0]))
		for _, c := range b[1:] {
			value = value<<8 | int64(c)
		}
		return value, nil
	}
	if kind%2 == 0 {
		return b, nil
	}
	if !utf8.Valid(b) {
		return nil, errRecord
	}
	return string(b), nil
}
