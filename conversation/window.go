package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Window is the part of a conversation that the model is shown, and how. It is stored
// with the conversation and stays as it is from run to run, so that each call of the
// model repeats the one before; when a call would exceed the budget, the run advances
// it. Package agentloop/window decides where it begins.
type Window struct {
	Start  int64 // seq of the first message that is shown; 0 = not chosen yet
	Cut    int   // tokens to which longer messages of the history are cut
	Budget int   // tokens that a call could have when the window was chosen
	Named  int   // number of pictures, the oldest from Start on, that are named in words and not shown
}

// tokens returns what a message takes of the window, at most.
func (w Window) tokens(m *Message) int {
	if m.State == LeftOut {
		return 0
	}
	if w.Cut > 0 {
		return min(m.Tokens, w.Cut)
	}
	return m.Tokens
}

// trim returns the part of a history that a snapshot holds, and the number of the
// messages before it: from the window's start on, but always the newest turn, and
// no more whole turns than the budget has room for.
func (w Window) trim(history []Message, older int64, budget int) ([]Message, int64) {
	whole := len(history) // where the newest whole turns begin
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		budget -= w.tokens(m)
		switch {
		case whole == len(history):
		case m.Seq < w.Start:
			return history[i+1:], w.Start - 1
		case budget < 0:
			return history[whole:], history[whole].Seq - 1
		}
		if i > 0 && m.StartsTurn(&history[i-1]) {
			whole = i
		}
	}
	return history, older
}

// maxTurn is how many messages of a turn that exceeds the budget a snapshot
// holds: the newest, and more than any run adds. Programs may append any number.
const maxTurn = 4000

// Widen returns a snapshot with the newest turns before a seq within the budget, in
// tokens, wherever the window has begun: it is to be chosen anew.
func (s *Store) Widen(ctx context.Context, snapshot Snapshot, before int64, budget int) (Snapshot, error) {
	if snapshot.Damaged || snapshot.Conversation.row == 0 {
		return snapshot, nil
	}
	snapshot.Conversation.Window = Window{}
	err := s.readHistory(ctx, &snapshot, before, budget)
	return snapshot, db.Explain(err)
}

// readHistory reads the history of a snapshot's conversation before a seq into it.
func (s *Store) readHistory(ctx context.Context, snapshot *Snapshot, before int64, budget int) (err error) {
	c := snapshot.Conversation
	snapshot.History, snapshot.Older, err = s.tail(ctx, c, before, budget)
	if IsDamaged(err) {
		s.db.NoteDamage(fmt.Sprintf("messages of %s", c.Key), err)
		snapshot.Damaged, err = true, nil
	}
	if snapshot.Damaged = snapshot.Damaged || s.closed.has(c.ID); snapshot.Damaged {
		snapshot.History, snapshot.Older = nil, c.Messages
	}
	return err
}

// After returns the snapshot after the commit of a run that began with this one, without
// what waits. This one must not be used any more.
func (t Snapshot) After(c Committed, budget int) Snapshot {
	next := Snapshot{Place: t.Place, Conversation: c.Conversation, Older: t.Older, Summary: t.Summary}
	next.History = t.History
	for _, m := range c.Messages {
		if !m.Internal {
			next.History = append(next.History, m)
		}
	}
	next.History, next.Older = c.Conversation.Window.trim(next.History, next.Older, budget)
	return next
}

// tail reads the part of a conversation before a seq that a snapshot holds, as Window.trim
// says. It walks back from the newest message, so that its cost grows with the window
// alone.
func (s *Store) tail(ctx context.Context, c Conversation, before int64, budget int) (history []Message, older int64, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	walk := walk{
		conn: conn, query: db.Short, before: before, most: math.MaxInt,
		where: `conversation_id = :conversation AND ` + turns.Visible, args: []any{sql.Named("conversation", c.row)},
	}
	if c.Window.Start > 0 { // one message more shows that the window begins there
		walk.page = min(int(c.Messages-c.Window.Start)+2, longestPage)
	}
	var newest []Message // newest first
	whole := 0           // how many of them make whole turns
	for m, err := range walk.messages(ctx) {
		if err != nil {
			return nil, 0, err
		}
		if n := len(newest); n > 0 && newest[n-1].StartsTurn(&m) {
			whole = n
		}
		budget -= c.Window.tokens(&m)
		switch {
		case whole > 0 && m.Seq < c.Window.Start:
			return oldestFirst(newest), c.Window.Start - 1, nil
		case whole > 0 && budget < 0:
			older = newest[whole-1].Seq - 1
			return oldestFirst(newest[:whole]), older, nil
		case budget < 0 && len(newest) >= maxTurn:
			older = m.Seq
			for n := len(newest); n > 0 && newest[n-1].Role == RoleTool; n-- { // whose calls are not among them
				newest, older = newest[:n-1], newest[n-1].Seq
			}
			return oldestFirst(newest), older, nil
		}
		newest = append(newest, m)
	}
	return oldestFirst(newest), 0, nil
}

func oldestFirst(messages []Message) []Message {
	slices.Reverse(messages)
	return messages
}
