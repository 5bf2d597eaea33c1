package importer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/media"
	"parley/conversation/steps"
	"parley/plaintext"
)

// jsonLine is a line: a whole conversation, as for fine-tuning
// (https://platform.openai.com/docs/guides/supervised-fine-tuning), or one
// message of the form of the chat completions API. Of the fields that `gateway
// sessions export` writes beside it, those are read that make the conversation
// what it was.
type jsonLine struct {
	Messages []jsonMessage `json:"messages"`
	jsonMessage

	Conversation string `json:"conversation"` // its ID
	Title        string `json:"title"`
}

type jsonMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a text, null, or a list of parts
	Name       string          `json:"name"`
	ToolCalls  []jsonToolCall  `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Call       *jsonFunction   `json:"function_call"` // as tool calls were written before 2023-11
	CreatedAt  *float64        `json:"created_at"`    // seconds since 1970

	At       time.Time           `json:"at"`
	Sender   conversation.Sender `json:"sender"`
	SourceID string              `json:"source_id"`
	Images   []media.Image       `json:"images"`
	State    string              `json:"state"`
	Internal bool                `json:"internal"`
	Failed   bool                `json:"failed"`

	FinishReason steps.FinishReason `json:"finish_reason"`
}

type jsonToolCall struct {
	ID       string       `json:"id"`
	Function jsonFunction `json:"function"`
}

type jsonFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// lines reads JSON lines. Lines with a message each make one conversation as
// long as they name the same.
type lines struct {
	in   *bufio.Reader
	n    int    // number of the line that was read last
	next []byte // the line that was read last, if it is to be read again; else nil

	session *archive.Session // the session of the archive; nil if the file is no archive

	key  conversation.Key
	now  time.Time
	take func(Entry) error

	open  *source // the conversation whose messages are being gathered; nil if there is none
	named string  // what the lines of open call their conversation
	first int     // number of the first line of open
	hash  hash.Hash
	size  int   // bytes of the lines of open
	err   error // error in one of the lines of open, which can't be imported then

	given map[string]string // hashes of the lines of the conversations that were handed over, by their IDs
}

func readLines(in io.Reader, key conversation.Key, now time.Time, take func(Entry) error) error {
	l := &lines{in: bufio.NewReaderSize(in, 64<<10), key: key, now: now, take: take, given: map[string]string{}}
	for {
		raw, err := l.read(maxConversation)
		switch {
		case errors.Is(err, io.EOF):
			return l.close()
		case errors.Is(err, errTooLarge):
			err = l.broken(l.n, err)
		case err != nil:
			return err
		case len(bytes.TrimSpace(raw)) > 0:
			err = l.line(l.n, raw)
		}
		if err != nil {
			return err
		}
	}
}

// read returns the next line, or the one that is to be read again.
func (l *lines) read(most int) ([]byte, error) {
	if again := l.next; again != nil {
		l.next = nil
		return again, nil
	}
	l.n++
	return readLine(l.in, most)
}

// readLine returns the next line without its end, and errTooLarge for one of more bytes
// than most, which was passed over. Behind the last one it returns io.EOF.
func readLine(in *bufio.Reader, most int) (line []byte, err error) {
	large := false
	for {
		piece, err := in.ReadSlice('\n')
		if large = large || len(line)+len(piece) > most; large {
			line = nil
		} else {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (large || len(line) > 0):
			err = nil // of the next call
		}
		if err == nil && large {
			err = errTooLarge
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), err
	}
}

func (l *lines) line(n int, raw []byte) error {
	if is, err := l.startsArchive(n, raw); is || err != nil {
		return err
	}
	var line jsonLine
	if err := json.Unmarshal(raw, &line); err != nil {
		return l.broken(n, inWords(err))
	}
	switch {
	case line.Messages != nil:
		if err := l.close(); err != nil {
			return err
		}
		return l.whole(n, line, raw)
	case line.Role != "":
		return l.add(n, line, raw)
	}
	return l.broken(n, errors.New(`found neither "messages" nor "role"`))
}

// broken is a line that can't be read. It spoils the conversation in which it
// stands: half a conversation is none.
func (l *lines) broken(n int, err error) error {
	if l.open == nil {
		return l.take(Entry{Place: fmt.Sprintf("line %d", n), Err: err})
	}
	if l.err == nil {
		l.err = fmt.Errorf("line %d: %w", n, err)
	}
	return nil
}

// whole is a line that is a conversation.
func (l *lines) whole(n int, line jsonLine, raw []byte) error {
	entry := Entry{Place: fmt.Sprintf("line %d", n)}
	s := source{id: line.Conversation, title: line.Title}
	sum := sha256.Sum256(raw)
	for i, message := range line.Messages {
		m, err := message.message()
		if err != nil {
			entry.Err = fmt.Errorf("message %d: %w", i+1, err)
			return l.take(entry)
		}
		s.messages = append(s.messages, m...)
	}
	return l.give(entry, s, hex.EncodeToString(sum[:]))
}

// add is a line that is a message.
func (l *lines) add(n int, line jsonLine, raw []byte) error {
	if l.open == nil || l.named != line.Conversation {
		if err := l.close(); err != nil {
			return err
		}
		l.open, l.named, l.first, l.hash = &source{id: line.Conversation}, line.Conversation, n, sha256.New()
		l.size = 0
	}
	if l.size += len(raw); l.size > maxConversation {
		l.open.messages = nil
		return l.broken(n, errTooLarge)
	}
	l.hash.Write(raw)
	if l.open.title == "" {
		l.open.title = line.Title
	}
	m, err := line.message()
	if err != nil {
		return l.broken(n, err)
	}
	l.open.messages = append(l.open.messages, m...)
	return nil
}

// close ends the conversation whose messages are being gathered.
func (l *lines) close() error {
	if l.open == nil {
		return nil
	}
	s, entry := *l.open, Entry{Place: fmt.Sprintf("the conversation from line %d on", l.first), Err: l.err}
	l.open, l.err = nil, nil
	if entry.Err != nil {
		return l.take(entry)
	}
	return l.give(entry, s, hex.EncodeToString(l.hash.Sum(nil)))
}

// give hands a conversation over, with the hash of its lines, which is its ID if they name none. Others of the same ID that follow are
// broken: a part of them would be stored, and the rest passed over as if it were there.
func (l *lines) give(entry Entry, s source, sum string) error {
	if s.id == "" {
		s.id = sum
	}
	switch before, given := l.given[s.id]; {
	case given && before != sum:
		entry.Err = fmt.Errorf("found more of the conversation %q, allowed: all its lines together", s.id)
	case len(s.messages) == 0:
		entry.Err = errEmpty
	default:
		l.given[s.id] = sum
		entry.Conversation = s.imported(l.key, l.now)
	}
	return l.take(entry)
}

// message gives the message, or none when it is the system's, empty, or one
// that was hidden where it was exported.
func (m jsonMessage) message() ([]conversation.Message, error) {
	text, err := contentText(m.Content)
	if err != nil {
		return nil, err
	}
	lines := []string{text}
	for _, image := range m.Images {
		lines = append(lines, fmt.Sprintf("[image %s, not imported]", plaintext.OneLine(image.Name)))
	}
	made := conversation.Message{Content: joinAll(lines), Sender: m.Sender, SourceID: m.SourceID, Stopped: m.State == "stopped", At: m.At}
	if made.At.IsZero() {
		made.At = fromUnix(m.CreatedAt)
	}
	switch m.Role {
	case "system", "developer":
		return nil, nil
	case "user":
		made.Role = conversation.RoleUser
	case "assistant":
		made.Role, made.ToolCalls = conversation.RoleAssistant, m.calls()
		if m.FinishReason.Words() != "" { // others are whole
			made.FinishReason = m.FinishReason
		}
	case "tool", "function":
		made.Role, made.ToolCallID, made.ToolName, made.Failed = conversation.RoleTool, m.ToolCallID, m.Name, m.Failed
		if m.Role == "function" {
			made.ToolCallID = m.Name // which its call is named by, see calls
		}
	default:
		return nil, fmt.Errorf("role: found %q, allowed: user, assistant, tool, system, developer", m.Role)
	}
	hidden := m.Internal || m.State != "" && m.State != conversation.LeftOut && !made.Stopped
	if hidden || made.Content == "" && len(made.ToolCalls) == 0 && made.Role != conversation.RoleTool {
		return nil, nil
	}
	return []conversation.Message{made}, nil
}

func (m jsonMessage) calls() []conversation.ToolCall {
	var calls []conversation.ToolCall
	for _, c := range m.ToolCalls {
		calls = append(calls, conversation.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if m.Call != nil {
		calls = append(calls, conversation.ToolCall{ID: m.Call.Name, Name: m.Call.Name, Arguments: m.Call.Arguments})
	}
	return calls
}

// contentText reads a content: a text, null, or a list of parts, of which those
// that are no text are named.
func contentText(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content: found %s, allowed: a text, null or a list of parts", strings.TrimSpace(string(raw[:min(len(raw), 20)])))
	}
	var words []string
	for _, part := range parts {
		if part.Type != "text" {
			part.Text = fmt.Sprintf("[%s, not imported]", plaintext.OneLine(strings.TrimSuffix(part.Type, "_url")))
		}
		words = append(words, part.Text)
	}
	return joinAll(words), nil
}
