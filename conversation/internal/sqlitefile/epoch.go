package sqlitefile

import (
	"bytes"
	"encoding/binary"
)

// An epoch is the random name of a database during one generation of its log. The table
// wal_epoch has one row with the epoch and its predecessor. The first transaction after a
// checkpoint stores a new epoch. So the predecessor of the first epoch in a log is the epoch
// of the file that the log continues.
type epoch struct {
	name, previous string
}

// epochFrame is an epoch in a log.
type epochFrame struct {
	epoch
	page  uint32
	frame uint32 // its number in the log, from 1
}

const epochLength = 32 // hexadecimal digits

// noEpoch is the predecessor of a database's first epoch.
var noEpoch = string(bytes.Repeat([]byte{'0'}, epochLength))

// epochCell has the first bytes of the row on disk: the length of the payload, the id of the row, which is
// 1, the length of the header, NULL for the id, and the types of two texts of epochLength.
var epochCell = []byte{4 + 2*epochLength, 1, 4, 0, 13 + 2*epochLength, 13 + 2*epochLength}

const leafTable = 0x0D // the type of a page with rows

// parseEpoch parses the page of the table wal_epoch, which always has only one. ok reports whether
// the page is that of wal_epoch.
func parseEpoch(page []byte) (e epoch, ok bool) {
	if page[0] != leafTable || binary.BigEndian.Uint16(page[3:]) != 1 {
		return e, false
	}
	cell := int(binary.BigEndian.Uint16(page[8:]))
	if cell+len(epochCell)+2*epochLength > len(page) || !bytes.HasPrefix(page[cell:], epochCell) {
		return e, false
	}
	texts := page[cell+len(epochCell):]
	e = epoch{name: string(texts[:epochLength]), previous: string(texts[epochLength : 2*epochLength])}
	return e, isHex(e.name) && isHex(e.previous)
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
