package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/plaintext"
)

// ChatGPT's export is described by nobody officially. What is read here is what
// exports hold that were made from 2023 to 2026: a conversation is a tree of
// messages, in which an edited question or an answer made anew is a branch, and
// current_node is the leaf of the branch that its user saw last.

type chatGPTConversation struct {
	ID             string                 `json:"id"`
	ConversationID string                 `json:"conversation_id"`
	Title          string                 `json:"title"`
	CreateTime     *float64               `json:"create_time"` // seconds since 1970
	UpdateTime     *float64               `json:"update_time"`
	CurrentNode    string                 `json:"current_node"`
	Mapping        map[string]chatGPTNode `json:"mapping"`
}

type chatGPTNode struct {
	Parent  *string         `json:"parent"`
	Message json.RawMessage `json:"message"` // read only on the branch that is followed
}

type chatGPTMessage struct {
	ID     string `json:"id"`
	Author struct {
		Role string `json:"role"`
		Name string `json:"name"`
	} `json:"author"`
	CreateTime *float64       `json:"create_time"`
	Content    chatGPTContent `json:"content"`
	Weight     *float64       `json:"weight"`    // 0: not shown
	Recipient  string         `json:"recipient"` // "all", or the tool that an assistant calls
	Metadata   struct {
		Hidden      bool          `json:"is_visually_hidden_from_conversation"`
		Attachments []chatGPTFile `json:"attachments"`
	} `json:"metadata"`
}

type chatGPTFile struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// readChatGPT reads an array of conversations, one at a time. One that is broken,
// or too large, is passed over.
func readChatGPT(in io.Reader, key conversation.Key, now time.Time, take func(Entry) error) error {
	list := &elements{in: bufio.NewReaderSize(in, 64<<10)}
	for n := 1; ; n++ {
		entry := Entry{Place: fmt.Sprintf("conversation %d", n)}
		raw, err := list.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTooLarge):
			entry.Err = err
		case err != nil:
			return brokenOff(entry.Place, list.offset, err)
		default:
			var s source
			if s, entry.Err = parseChatGPT(raw); entry.Err == nil {
				entry.Conversation = s.imported(key, now)
			}
		}
		if err := take(entry); err != nil {
			return err
		}
	}
}

// brokenOff says where the file stops being JSON.
func brokenOff(place string, offset int64, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends in the middle: was it copied or downloaded whole?")
	}
	return fmt.Errorf("%s, after byte %d: %w", place, offset, err)
}

func parseChatGPT(raw json.RawMessage) (source, error) {
	var c chatGPTConversation
	if err := json.Unmarshal(raw, &c); err != nil {
		return source{}, inWords(err)
	}
	path, err := c.path()
	if err != nil {
		return source{}, err
	}
	s := source{title: c.Title, created: fromUnix(c.CreateTime), updated: fromUnix(c.UpdateTime), id: c.ConversationID}
	if s.id == "" {
		s.id = c.ID
	}
	if s.id == "" {
		s.id = c.CurrentNode // the oldest exports name conversations by nothing else
	}
	if s.messages, err = chatGPTMessages(path); err != nil {
		return source{}, err
	}
	if len(s.messages) == 0 {
		return source{}, errEmpty
	}
	return s, nil
}

var errEmpty = errors.New("nothing is said in it")

// path is the branch that ends with the current node, oldest first.
func (c chatGPTConversation) path() ([]chatGPTNode, error) {
	var path []chatGPTNode
	seen := map[string]bool{}
	for at := c.CurrentNode; ; {
		node, there := c.Mapping[at]
		switch {
		case !there && len(path) == 0:
			return nil, fmt.Errorf("current_node: found %q, allowed: one of the nodes of mapping", at)
		case !there:
			return nil, fmt.Errorf("mapping: a message follows on %q, which is not there", at)
		case seen[at]:
			return nil, fmt.Errorf("mapping: the message %q follows on itself", at)
		}
		seen[at] = true
		path = append(path, node)
		if node.Parent == nil || *node.Parent == "" {
			slices.Reverse(path)
			return path, nil
		}
		at = *node.Parent
	}
}

// chatGPTMessages gives what was said on a branch. System messages, hidden ones
// and the model's thoughts are left out.
func chatGPTMessages(path []chatGPTNode) ([]conversation.Message, error) {
	var list []conversation.Message
	call := "" // id of the call that results belong to
	for _, node := range path {
		var raw *chatGPTMessage
		if len(node.Message) > 0 {
			if err := json.Unmarshal(node.Message, &raw); err != nil {
				return nil, fmt.Errorf("a message: %w", inWords(err))
			}
		}
		if raw == nil || raw.hidden() {
			continue
		}
		m, err := raw.message()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the message %q: %w", raw.ID, err)
		case m.Content == "" && len(m.ToolCalls) == 0:
			continue
		case m.Role == conversation.RoleTool:
			m.ToolCallID = call
		case len(m.ToolCalls) > 0:
			call = m.ToolCalls[0].ID
		default:
			call = ""
		}
		list = append(list, m)
	}
	return list, nil
}

func (m *chatGPTMessage) hidden() bool {
	switch m.Content.Type {
	case "thoughts", "reasoning_recap", "user_editable_context", "model_editable_context":
		return true
	}
	return m.Author.Role == "system" || m.Metadata.Hidden || m.Weight != nil && *m.Weight == 0
}

func (m *chatGPTMessage) message() (conversation.Message, error) {
	made := conversation.Message{SourceID: m.ID, At: fromUnix(m.CreateTime)}
	text, err := m.Content.text(m.Metadata.Attachments)
	if err != nil {
		return made, err
	}
	switch m.Author.Role {
	case "user":
		made.Role, made.Content = conversation.RoleUser, text
	case "tool":
		made.Role, made.Content, made.ToolName = conversation.RoleTool, text, m.Author.Name
	case "assistant":
		made.Role, made.Content = conversation.RoleAssistant, text
		if m.Recipient != "" && m.Recipient != "all" {
			made.Content = ""
			made.ToolCalls = []conversation.ToolCall{{ID: m.ID, Name: m.Recipient, Arguments: arguments(text)}}
		}
	default:
		return made, fmt.Errorf("author.role: found %q, allowed: user, assistant, tool, system", m.Author.Role)
	}
	return made, nil
}

// chatGPTContent is what a message says, by its content_type: parts for text
// and multimodal_text, text for code, execution_output and others, result for
// tether_browsing_display.
type chatGPTContent struct {
	Type     string            `json:"content_type"`
	Parts    []json.RawMessage `json:"parts"` // texts and objects
	Text     string            `json:"text"`
	Language string            `json:"language"` // of code
	Result   string            `json:"result"`
}

// text is the content in words; pictures and files are named.
func (c chatGPTContent) text(files []chatGPTFile) (string, error) {
	words := []string{c.Text, c.Result}
	if c.Type == "code" && c.Language != "" && c.Language != "unknown" && c.Language != "json" {
		words[0] = "```" + plaintext.OneLine(c.Language) + "\n" + c.Text + "\n```"
	}
	shown := map[string]bool{}
	for _, raw := range c.Parts {
		part, err := parseChatGPTPart(raw, files, shown)
		if err != nil {
			return "", err
		}
		words = append(words, part)
	}
	for _, file := range files {
		if !shown[file.ID] {
			words = append(words, fmt.Sprintf("[file %s, not imported]", plaintext.OneLine(file.Name)))
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return strings.TrimSpace(w) == "" })
	return strings.Join(words, "\n"), nil
}

// parseChatGPTPart gives a part in words, and marks a file that it shows.
func parseChatGPTPart(raw json.RawMessage, files []chatGPTFile, shown map[string]bool) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil { // null is ""
		return text, nil
	}
	var part struct {
		Type    string `json:"content_type"`
		Text    string `json:"text"` // of a transcription
		Pointer string `json:"asset_pointer"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return "", fmt.Errorf("content.parts: %w", inWords(err))
	}
	if part.Text != "" || part.Type == "" {
		return part.Text, nil
	}
	_, id, _ := strings.Cut(part.Pointer, "://")
	shown[id] = true
	name := id
	for _, file := range files {
		if file.ID == id {
			name = file.Name
		}
	}
	kind, _, _ := strings.Cut(part.Type, "_") // image_asset_pointer, audio_asset_pointer
	return fmt.Sprintf("[%s, not imported]", plaintext.OneLine(kind+" "+name)), nil
}

// inWords says what is wrong with a value in the words of its file.
func inWords(err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return fmt.Errorf("%s: found a JSON %s where it can't stand", mistyped.Field, mistyped.Value)
	}
	return err
}
