package conversation

import (
	"errors"
	"fmt"
	"slices"

	"parley/conversation/internal/db"
)

// checkAppended gives the messages as they are stored, or ErrInvalid.
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
		if m.Metadata, err = m.Metadata.checked(); err != nil {
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
	if err := checkRounds(messages); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return messages, nil
}

// check says what a message lacks, or has too much.
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

// checkRounds says where, in what the model will see, a tool call lacks its
// result or a result its call.
func checkRounds(messages []Message) error {
	var open []string // ids of calls without a result
	for i, m := range messages {
		if m.Internal {
			continue
		}
		at := slices.Index(open, m.ToolCallID)
		switch {
		case m.Role == RoleTool && at < 0:
			return fmt.Errorf("message %d is the result of the tool call %q, which does not stand before it", i+1, m.ToolCallID)
		case m.Role == RoleTool:
			open = slices.Delete(open, at, at+1)
		case len(open) > 0:
			return fmt.Errorf("message %d stands before the result of the tool call %q", i+1, open[0])
		}
		for _, call := range m.ToolCalls {
			if call.ID == "" || call.Name == "" || slices.Contains(open, call.ID) {
				return fmt.Errorf("message %d has a tool call without a name or an id of its own", i+1)
			}
			open = append(open, call.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the result of the tool call %q is missing", open[0])
	}
	return nil
}
