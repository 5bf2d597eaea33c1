package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/media"
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
		Hidden      bool            `json:"is_visually_hidden_from_conversation"`
		Attachments []chatGPTFile   `json:"attachments"`
		References  json.RawMessage `json:"content_references"` // a list of chatGPTReference
	} `json:"metadata"`
}

type chatGPTFile struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// readChatGPT reads an array of conversations, one at a time, whose messages have those of the
// files that are there. A conversation that is broken, or too large, is passed over.
func readChatGPT(in io.Reader, key conversation.Key, now time.Time, files exportFiles, take func(Entry) error) error {
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
			if s, entry.Err = parseChatGPT(raw, files); entry.Err == nil {
				entry.Conversation = s.imported(key, now)
				entry.Conversation.Open = files.open
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

func parseChatGPT(raw json.RawMessage, files exportFiles) (source, error) {
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
	if s.messages, err = chatGPTMessages(path, files); err != nil {
		return source{}, err
	}
	if len(s.messages) == 0 {
		return source{}, errEmpty
	}
	return s, nil
}

var errEmpty = errors.New("nothing is said in it")

// path is the branch that ends with the current node, oldest first. Where that is not there, it is
// the branch with the newest message. A branch whose beginning was deleted begins behind that.
func (c chatGPTConversation) path() ([]chatGPTNode, error) {
	at := c.CurrentNode
	if _, there := c.Mapping[at]; !there {
		if at = c.newest(); at == "" {
			return nil, fmt.Errorf("current_node: found %q, allowed: one of the nodes of mapping", c.CurrentNode)
		}
	}
	var path []chatGPTNode
	seen := map[string]bool{}
	for {
		if seen[at] {
			return nil, fmt.Errorf("mapping: the message %q follows on itself", at)
		}
		node, there := c.Mapping[at]
		if there {
			seen[at] = true
			path = append(path, node)
		}
		if !there || node.Parent == nil || *node.Parent == "" {
			slices.Reverse(path)
			return path, nil
		}
		at = *node.Parent
	}
}

// newest returns the node with the newest message, "" for none. Of messages of one time, and of those
// without any, it is the one on which nothing follows.
func (c chatGPTConversation) newest() (newest string) {
	isParent := map[string]bool{}
	for _, node := range c.Mapping {
		if node.Parent != nil {
			isParent[*node.Parent] = true
		}
	}
	last := -1.0
	for _, name := range slices.Sorted(maps.Keys(c.Mapping)) {
		var message struct {
			CreateTime float64 `json:"create_time"`
		}
		_ = json.Unmarshal(c.Mapping[name].Message, &message) // what is wrong with it is told where it is read
		if at := message.CreateTime; !isParent[name] && at > last {
			newest, last = name, at
		}
	}
	return newest
}

// chatGPTMessages gives what was said on a branch. System messages, hidden ones
// and the model's thoughts are left out.
func chatGPTMessages(path []chatGPTNode, files exportFiles) ([]conversation.Message, error) {
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
		m, err := raw.message(files)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the message %q: %w", raw.ID, err)
		case m.Content == "" && len(m.ToolCalls) == 0 && len(m.Files) == 0:
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
	return filesInAnswers(list), nil
}

func (m *chatGPTMessage) hidden() bool {
	switch m.Content.Type {
	case "thoughts", "reasoning_recap", "user_editable_context", "model_editable_context":
		return true
	}
	return m.Author.Role == "system" || m.Metadata.Hidden || m.Weight != nil && *m.Weight == 0
}

func (m *chatGPTMessage) message(files exportFiles) (conversation.Message, error) {
	made := conversation.Message{SourceID: m.ID, At: fromUnix(m.CreateTime)}
	isCall := m.Author.Role == "assistant" && m.Recipient != "" && m.Recipient != "all"
	if isCall {
		files = exportFiles{} // a call has no files
	}
	text, enclosed, err := m.Content.read(m.Metadata.Attachments, files)
	if err != nil {
		return made, err
	}
	made.Files = enclosed
	if m.Author.Role == "assistant" {
		var references []chatGPTReference
		_ = json.Unmarshal(m.Metadata.References, &references) // without them, sources are left out
		text = withoutMarks(text, references)
	}
	switch m.Author.Role {
	case "user":
		made.Role, made.Content = conversation.RoleUser, text
	case "tool":
		made.Role, made.Content, made.ToolName = conversation.RoleTool, text, m.Author.Name
	case "assistant":
		made.Role, made.Content = conversation.RoleAssistant, text
		if isCall {
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
	Output   string            `json:"output_str"`
	Title    string            `json:"title"`
	URL      string            `json:"url"`
}

// read returns the content in words, and the files that the export holds of it; others are named.
func (c chatGPTContent) read(attached []chatGPTFile, files exportFiles) (text string, enclosed []media.File, err error) {
	words := []string{c.Text, c.Result, c.Output}
	if c.Type == "tether_quote" {
		words = append([]string{plaintext.OneLine(c.Title), plaintext.OneLine(c.URL)}, words...)
	}
	if c.Type == "code" && c.Language != "" && c.Language != "unknown" && c.Language != "json" {
		words[0] = "```" + plaintext.OneLine(c.Language) + "\n" + c.Text + "\n```"
	}
	shown, names := map[string]bool{}, map[string]string{}
	for _, a := range attached {
		names[a.ID] = a.Name
	}
	for _, raw := range c.Parts {
		said, part, err := parseChatGPTPart(raw)
		if err != nil {
			return "", nil, err
		}
		if part != nil {
			var file *media.File
			var id string
			if id, file, said = files.fileOfPart(*part, names); file != nil && !shown[id] {
				enclosed = append(enclosed, *file)
			}
			shown[id] = true
		}
		words = append(words, said)
	}
	for _, a := range attached {
		if shown[a.ID] {
			continue
		}
		if file, is := files.file(a.ID, a.Name, "file"); is {
			enclosed = append(enclosed, file)
		} else {
			words = append(words, fmt.Sprintf("[file %s, not imported]", plaintext.OneLine(a.Name)))
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return strings.TrimSpace(w) == "" })
	return strings.Join(words, "\n"), enclosed, nil
}

// chatGPTPart is a part of a message that is no plain text.
type chatGPTPart struct {
	Type    string `json:"content_type"`
	Text    string `json:"text"` // of a transcription
	Pointer string `json:"asset_pointer"`
	Audio   struct {
		Pointer string `json:"asset_pointer"`
	} `json:"audio_asset_pointer"` // of real_time_user_audio_video_asset_pointer
}

// parseChatGPTPart returns what a part says, or the part if it is a file.
func parseChatGPTPart(raw json.RawMessage) (text string, file *chatGPTPart, err error) {
	if json.Unmarshal(raw, &text) == nil { // null is ""
		return text, nil, nil
	}
	var part chatGPTPart
	if err := json.Unmarshal(raw, &part); err != nil {
		return "", nil, fmt.Errorf("content.parts: %w", inWords(err))
	}
	if part.Text != "" || part.Type == "" {
		return part.Text, nil, nil
	}
	return "", &part, nil
}

// inWords says what is wrong with a value in the words of its file.
func inWords(err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field == "" {
		return fmt.Errorf("found a JSON %s where it can't stand", mistyped.Value)
	}
	if mistyped != nil {
		return fmt.Errorf("%s: found a JSON %s where it can't stand", mistyped.Field, mistyped.Value)
	}
	return err
}
