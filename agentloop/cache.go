package agentloop

import "parley/conversation"

// cache is what a loop knows of its session: the inbound that waits, and the
// messages of a window. A run that follows another reads nothing from the store, as
// long as nobody else has changed the session.
//
// Reading the store before every run instead was measured in November 2026 with 200
// chats of 20 messages: CPU per message rose from 0.47 to 0.65 ms, and more with
// longer windows; a window of 100 messages takes 0.5 ms to read. On an engine
// behind a network the read is four round trips.
type cache struct {
	snapshot conversation.Snapshot
	valid    bool  // snapshot is what the store holds, without what is still in the mailbox
	newest   int64 // ID of the newest inbound that was added or loaded

	noneMissing bool // the session has no earlier file that a run must still fetch, or tell the model of
}

// invalidate makes the loop read the store before it goes on.
func (c *cache) invalidate() { c.valid, c.noneMissing = false, false }

// add appends inbound from the mailbox to what waits. Inbound that is not newer than
// all before it was read from the store already, or has come out of order: the store
// is read again.
func (c *cache) add(inbound []conversation.Inbound) {
	for _, in := range inbound {
		if in.ID <= c.newest {
			c.invalidate()
			continue
		}
		c.newest = in.ID
		c.snapshot.Waiting = append(c.snapshot.Waiting, in)
	}
}

// load takes in a snapshot that was read from the store. One that is not complete
// is good for one run only.
func (c *cache) load(snapshot conversation.Snapshot) {
	c.snapshot = snapshot
	if n := len(snapshot.Waiting); n > 0 {
		c.newest = max(c.newest, snapshot.Waiting[n-1].ID)
		c.valid = !snapshot.More && !snapshot.Damaged
	}
}

// committed advances the snapshot by a run that was committed, where its messages
// directly follow those that the run knew. Otherwise somebody else has changed the
// conversation, or the run has an effect on it, and the store is read again.
func (c *cache) committed(run conversation.Run, done conversation.Committed, budget int) {
	follows := done.Conversation.Messages == run.Conversation.Messages+int64(len(done.Messages))
	if run.Effect != (conversation.Effect{}) || done.Conversation.ID != c.snapshot.Conversation.ID || !follows {
		c.invalidate()
	}
	if !c.valid {
		return
	}
	next := c.snapshot.After(done, budget)
	next.Waiting, next.Notes = without(c.snapshot.Waiting, run.Took), without(c.snapshot.Notes, run.Took)
	c.snapshot = next
}
