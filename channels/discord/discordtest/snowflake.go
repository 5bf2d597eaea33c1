package discordtest

import (
	"strconv"
	"time"
)

// epoch is the first second of 2015, from which snowflakes count.
// https://discord.com/developers/docs/reference#snowflakes
const epoch = 1420070400000

// Snowflake is the smallest id of an instant, as used for paging by time.
func Snowflake(t time.Time) string {
	return strconv.FormatUint(uint64(t.UnixMilli()-epoch)<<22, 10)
}

// newID is greater than every id before it.
func (s *Server) newID() string {
	s.lastID = max(s.lastID+1, uint64(s.now().UnixMilli()-epoch)<<22)
	return strconv.FormatUint(s.lastID, 10)
}

// newIDAt is a fresh id for something that happened at t, perhaps long ago.
func (s *Server) newIDAt(t time.Time) string {
	id := uint64(t.UnixMilli()-epoch) << 22
	for {
		text := strconv.FormatUint(id, 10)
		if s.messages[text] == nil {
			s.lastID = max(s.lastID, id)
			return text
		}
		id++
	}
}

// newGuildID moves to the next millisecond, so that guilds which are made one
// after the other are spread over the shards.
func (s *Server) newGuildID() string {
	s.lastID = max((s.lastID>>22+1)<<22, uint64(s.now().UnixMilli()-epoch)<<22)
	return strconv.FormatUint(s.lastID, 10)
}

// number is the value of an id; 0 is none.
func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// isSnowflake reports whether Discord would read it as an id.
func isSnowflake(id string) bool { return number(id) != 0 }
