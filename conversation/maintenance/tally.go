package maintenance

import (
	"cmp"
	"maps"
	"slices"

	"parley/conversation"
)

// tally collects what the readable rows, and the indexes, which also name unreadable
// rows, show of sessions, conversations and messages.
type tally struct {
	sessions      map[int64]*sessionTally
	conversations map[int64]*conversationTally
	waiting       map[int64]int64           // session of each inbound that waits according to the index, by row ID
	due           map[int64]int64           // session of each delivery that is due according to the index, by row ID
	read          map[string]map[int64]bool // by table, the IDs among those whose rows in inbox or outbox can be read
}

type sessionTally struct {
	key conversation.Key
	row bool // its row can be read
}

type conversationTally struct {
	session  int64
	uuid     string
	title    string
	row      bool // its row can be read
	active   bool
	deleted  int64
	messages int64     // number of messages that the conversation has
	found    []stretch // stretches of seqs, in the order in which they were read
}

// stretch are messages that follow each other.
type stretch struct {
	first, last int64 // seq
	from, to    int64 // when they were written, milliseconds
}

func newTally() tally {
	return tally{
		sessions: map[int64]*sessionTally{}, conversations: map[int64]*conversationTally{},
		waiting: map[int64]int64{}, due: map[int64]int64{},
		read: map[string]map[int64]bool{"inbox": {}, "outbox": {}},
	}
}

func (a *tally) session(id int64) *sessionTally {
	if a.sessions[id] == nil {
		a.sessions[id] = &sessionTally{}
	}
	return a.sessions[id]
}

func (a *tally) conversation(id int64) *conversationTally {
	if a.conversations[id] == nil {
		a.conversations[id] = &conversationTally{}
	}
	return a.conversations[id]
}

// fields are the values of a row by column.
type fields struct {
	t      table
	values []any
}

func (f fields) of(name string) any {
	for i, c := range f.t.columns {
		if c.name == name && i < len(f.values) {
			return f.values[i]
		}
	}
	return nil
}

func (f fields) number(name string) int64 {
	n, _ := f.of(name).(int64)
	return n
}

func (f fields) text(name string) string {
	text, _ := f.of(name).(string)
	return text
}

// row counts a row that can be read.
func (a *tally) row(t table, id int64, values []any) {
	f := fields{t, values}
	switch t.name {
	case "sessions":
		s := a.session(id)
		s.key, s.row = conversation.Key(f.text("key")), true
	case "conversations":
		c := a.conversation(id)
		c.session, c.uuid, c.title, c.row = f.number("session_id"), f.text("uuid"), f.text("title"), true
		c.messages, c.deleted, c.active = f.number("messages"), f.number("deleted"), f.number("active") == 1
	case "messages":
		a.conversation(f.number("conversation_id")).add(f.number("seq"), f.number("created_at"))
	case "inbox":
		if f.of("run_id") == nil {
			a.read["inbox"][id] = true
		}
	case "outbox":
		if f.text("state") == "due" {
			a.read["outbox"][id] = true
		}
	}
}

func (c *conversationTally) add(seq, at int64) {
	if n := len(c.found); n > 0 && c.found[n-1].last+1 == seq {
		c.found[n-1].last, c.found[n-1].to = seq, at
		return
	}
	c.found = append(c.found, stretch{seq, seq, at, at})
}

// entry counts an entry of an index. The id of its row is at its end.
func (a *tally) entry(index string, values []any) {
	if len(values) < 2 {
		return
	}
	id, ok := values[len(values)-1].(int64)
	if !ok {
		return
	}
	text, _ := values[0].(string)
	number, _ := values[0].(int64)
	switch index {
	case "sqlite_autoindex_sessions_1":
		if s := a.session(id); !s.row {
			s.key = conversation.Key(text)
		}
	case "sqlite_autoindex_conversations_1":
		if c := a.conversation(id); !c.row {
			c.uuid = text
		}
	case "conversations_session":
		if c := a.conversation(id); !c.row {
			c.session = number
		}
	case "conversations_active":
		if c := a.conversation(id); !c.row {
			c.session, c.active = number, true
		}
	case "conversations_deleted":
		if c := a.conversation(id); !c.row {
			c.deleted = 1
		}
	case "sqlite_autoindex_messages_1":
		if c := a.conversation(number); !c.row {
			seq, _ := values[1].(int64)
			c.messages = max(c.messages, seq)
		}
	case "inbox_waiting":
		a.waiting[id] = number
	case "outbox_due":
		a.due[id] = number
	}
}

// Loss is a part of a conversation that can't be read.
type Loss struct {
	Session      conversation.Key // "" if the session is not known
	Conversation string           // ID of the conversation; "" if it is not known
	Title        string
	First, Last  int64 // seqs of the first and last message that are lost; 0 if only the conversation's own row is
	After        int64 // when the message before First was written, in milliseconds; 0 if there is none
	Before       int64 // when the message after Last was written, in milliseconds; 0 if there is none
}

// losses returns the messages that are missing, by conversation.
func (a *tally) losses() (list []Loss) {
	for _, id := range slices.Sorted(maps.Keys(a.conversations)) {
		c := a.conversations[id]
		if c.deleted != 0 {
			continue
		}
		loss := Loss{Conversation: c.uuid, Title: c.title}
		if s := a.sessions[c.session]; s != nil {
			loss.Session = s.key
		}
		if !c.row {
			list = append(list, loss)
		}
		list = append(list, c.missing(loss)...)
	}
	return list
}

// missing returns the ranges of messages that are missing.
func (c *conversationTally) missing(of Loss) (list []Loss) {
	slices.SortFunc(c.found, func(a, b stretch) int { return cmp.Compare(a.first, b.first) })
	next, after := int64(1), int64(0)
	for _, s := range c.found {
		if s.first > next {
			of.First, of.Last, of.After, of.Before = next, s.first-1, after, s.from
			list = append(list, of)
		}
		next, after = max(next, s.last+1), s.to
	}
	if c.messages >= next {
		of.First, of.Last, of.After, of.Before = next, c.messages, after, 0
		list = append(list, of)
	}
	return list
}

// lostWork returns, by session, the inbound that waits or the replies that are due
// of which only the index knows.
func (a *tally) lostWork(table string, indexed map[int64]int64) map[conversation.Key]int64 {
	lost := map[conversation.Key]int64{}
	for id, session := range indexed {
		if a.read[table][id] {
			continue
		}
		key := conversation.Key("")
		if s := a.sessions[session]; s != nil {
			key = s.key
		}
		lost[key]++
	}
	return lost
}
