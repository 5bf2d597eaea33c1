package conversation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/toolcalls"
	"parley/conversation/state"
)

// Programs may append messages to a session that were not written by a run.

// Limits of one Append, so that no other write waits long.
const (
	appendMost  = 200
	appendBytes = 1 << 20 // bytes of texts and tool calls
)

// Append adds messages to the active conversation of a session, all or none, and creates both
// if necessary. The messages of a run under way follow them.
//
// Each message has its tokens; At may be zero. A system message is shown to the model in
// every run from now on and to nobody else, so it becomes internal. A tool call needs its
// results in the same Append. Other messages are ErrInvalid.
//
// If sourceID is not "", it is unique in the session, and a repeated Append returns what the
// first one stored, for as long as settled inbound is kept. The error is ErrReused for other
// messages with the same sourceID, and ErrNotFound if the conversation was deleted.
func (s *Store) Append(ctx context.Context, key Key, sourceID string, messages ...Message) (done Committed, err error) {
	if messages, err = checkAppended(messages); err != nil {
		return done, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		done, err = s.appendOnce(ctx, tx, key, sourceID, messages)
		if err != nil {
			return fmt.Errorf("append to %s: %w", key, err)
		}
		return nil
	})
	return done, err
}

func (s *Store) appendOnce(ctx context.Context, tx db.Tx, key Key, sourceID string, messages []Message) (done Committed, err error) {
	at := s.Now()
	session, entered, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(at))
	if err != nil {
		return done, err
	}
	key = Key(entered)
	hash, err := fingerprintOf(messages)
	if err != nil {
		return done, err
	}
	if sourceID != "" {
		if done, err = appendedBefore(ctx, tx, session, sourceID, hash); err != nil || done.Repeated {
			return done, err
		}
	}
	c, err := activeToChange(ctx, tx, key)
	if err != nil {
		return done, err
	}
	run := Run{Key: key, Conversation: c, Messages: messages, Events: s.eventsOf(messages)}
	if done.Conversation, done.Messages, err = appendMessages(ctx, tx, run, session, at); err != nil {
		return done, err
	}
	if err := rows.CheckInstructions(done.Conversation.State.Instructions); err != nil {
		return done, err
	}
	if sourceID != "" {
		_, err = tx.ExecContext(ctx, `
			INSERT INTO appends (session_id, source_id, fingerprint, conversation_id, first_seq, messages, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			session, sourceID, hash, done.Conversation.row, done.Messages[0].Seq, len(messages), db.Millis(at))
	}
	return done, err
}

// eventsOf returns what messages of programs add to the state of a conversation.
func (s *Store) eventsOf(messages []Message) []state.Event {
	events := append(instructions(messages), s.events(messages)...)
	slices.SortStableFunc(events, func(a, b state.Event) int { return cmp.Compare(a.Message, b.Message) })
	return events
}

// appendedBefore returns what was stored under a sourceID, or the zero value.
func appendedBefore(ctx context.Context, tx db.Tx, session int64, sourceID, hash string) (done Committed, err error) {
	var known string
	var conversation, first, n int64
	err = tx.QueryRowContext(ctx, `
		SELECT fingerprint, conversation_id, first_seq, messages FROM appends WHERE session_id = ? AND source_id = ?`,
		session, sourceID).Scan(&known, &conversation, &first, &n)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return done, nil
	case err != nil:
		return done, err
	case known != hash:
		return done, fmt.Errorf("%w: %q", ErrReused, sourceID)
	}
	var place string
	done.Conversation, err = scanConversation(tx.QueryRowContext(ctx, selectConversations+`WHERE c.id = ? AND c.deleted = 0`, conversation), &place)
	if err != nil {
		return done, notFound(err)
	}
	done.Repeated = true
	done.Messages, err = readMessages(ctx, tx, selectMessages+`
		WHERE conversation_id = ? AND seq >= ? AND seq < ? ORDER BY seq`, conversation, first, first+n)
	return done, err
}

// fingerprintOf returns a hash of what messages say; their times do not count.
func fingerprintOf(messages []Message) (string, error) {
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Tokens, messages[i].At = 0, time.Time{}
	}
	return hashOf(messages)
}

func hashOf(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// checkAppended returns the messages as they are stored, or ErrInvalid.
func checkAppended(messages []Message) ([]Message, error) {
	if len(messages) == 0 || len(messages) > appendMost {
		return nil, fmt.Errorf("%w: %d messages, one to %d are taken at once", ErrInvalid, len(messages), appendMost)
	}
	messages = slices.Clone(messages)
	bytes := 0
	for i := range messages {
		m := &messages[i]
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%w: message %d %w", ErrInvalid, i+1, err)
		}
		var err error
		if m.Metadata, err = m.Metadata.Checked(); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		m.Content, m.Internal = db.Text(m.Content), m.Internal || m.Role == RoleSystem
		bytes += len(m.Content)
		for _, call := range m.ToolCalls {
			bytes += len(call.Name) + len(call.Arguments)
		}
	}
	if bytes > appendBytes {
		return nil, fmt.Errorf("%w: the messages have %d bytes, at most %d are taken at once", ErrInvalid, bytes, appendBytes)
	}
	var calls toolcalls.Checker
	for _, m := range messages {
		if err := m.CheckCalls(&calls); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	if err := calls.End(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return messages, nil
}

// check returns why a message can't be stored.
func (m *Message) check() error {
	switch {
	case !slices.Contains([]Role{RoleUser, RoleAssistant, RoleTool, RoleSystem}, m.Role):
		return fmt.Errorf("has the role %q, allowed are user, assistant, tool and system", m.Role)
	case m.Tokens < 0:
		return errors.New("has less than no tokens")
	case len(m.ToolCalls) > 0 && m.Role != RoleAssistant:
		return fmt.Errorf("has the role %s, and only an assistant's has tool calls", m.Role)
	case m.Content == "" && len(m.ToolCalls) == 0 && m.Role != RoleTool:
		return errors.New("is empty")
	}
	return nil
}

// CheckCalls adds the message to a checker, which returns an error unless each tool call has a
// result and each result a call. It ignores messages that the model does not see.
func (m *Message) CheckCalls(checker *toolcalls.Checker) error {
	if m.Hidden() {
		checker.Skip()
		return nil
	}
	calls := make([]toolcalls.Call, len(m.ToolCalls))
	for i, call := range m.ToolCalls {
		calls[i] = toolcalls.Call{ID: call.ID, Name: call.Name}
	}
	return checker.Add(m.Role == RoleTool, m.ToolCallID, calls)
}

// StateOf returns the state of a conversation that consists of these messages.
func (s *Store) StateOf(messages []Message) state.State {
	return stateAfter(state.State{}, Run{Messages: messages, Events: s.events(messages)})
}
