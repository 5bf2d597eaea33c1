package window

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/steps"
	"parley/llm"
	"parley/plaintext"
)

// NewEntry counts the tokens of a message.
func NewEntry(counter Counter, m llm.Message) Entry {
	return Entry{Message: m, Tokens: counter.Message(m)}
}

// Entry is a message for the model with its tokens, which are counted once.
type Entry struct {
	llm.Message
	Tokens int
	Finish steps.FinishReason // why an answer is not whole, "" when it is
	Failed bool               // the message is the result of a tool call that failed

	Reasoning string // what the model thought before an answer; it is stored and not sent

	files    []media.File
	pictures []media.Image // its images, or those that the model made with it, as they are stored
}

// PictureBytes returns how many bytes the pictures of the entry have that are stored with it.
func (e Entry) PictureBytes() (n int64) {
	for _, p := range e.pictures {
		n += int64(max(p.Size, len(p.Data)))
	}
	return n
}

// EntryOf returns a stored message of the current turn. Pictures that the model made are no
// images of the entry: List names them.
func EntryOf(m conversation.Message) Entry {
	e := Entry{Message: ToModel(&m), Tokens: m.Tokens, Finish: m.FinishReason, Failed: m.Failed, Reasoning: m.Reasoning, files: m.Files, pictures: m.Images}
	if m.Role == conversation.RoleAssistant {
		e.Images = nil
	}
	return e
}

// SeenEntry returns the entry of a tool's result whose pictures were loaded for the model.
func SeenEntry(m conversation.Message, loaded []media.Image) Entry {
	e := EntryOf(m)
	m.Images = loaded
	e.Message, e.pictures = ToModel(&m), slices.Clone(e.pictures)
	for i := range loaded {
		e.pictures[i].Lost = loaded[i].Lost
	}
	return e
}

// message returns the entry as the model is shown it.
func (e Entry) message() llm.Message {
	if e.Role == string(conversation.RoleAssistant) {
		for _, picture := range e.pictures {
			e.Content = JoinLines(e.Content, madeLine(picture))
		}
	}
	return e.Message
}

// ToModel returns a stored message as the model is shown it. In groups the sender's
// name stands before the text, and the other lines are indented: only a line at the
// margin begins what somebody says.
func ToModel(m *conversation.Message) llm.Message {
	shown := llm.Message{
		Role:       string(m.Role),
		Content:    shownContent(m),
		Note:       noteText(m.Note),
		Name:       m.ToolName,
		ToolCallID: m.ToolCallID,
	}
	for _, image := range m.Images {
		if image.Lost {
			shown.Content = JoinLines(shown.Content, PictureLine(image))
			continue
		}
		shown.Images = append(shown.Images, llm.Image{MediaType: image.MediaType, Data: image.Data})
	}
	if m.Sender != (conversation.Sender{}) {
		shown.Content = SenderName(m.Sender) + ": " + indented.Replace(shown.Content)
	}
	for _, call := range m.ToolCalls {
		shown.ToolCalls = append(shown.ToolCalls, llm.ToolCall(call))
	}
	return shown
}

// indented indents all lines but the first, however they are broken.
var indented = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\v", "\n  ", "\f", "\n  ", "\u0085", "\n  ", "\u2028", "\n  ", "\u2029", "\n  ")

// maxShownFile is how many bytes of a file's text the model is shown in its message. It
// reads the rest with the tool read_file.
const maxShownFile = 24 << 10

// shownContent returns the content of a message with the texts of long files cut. A
// file that is not kept can't be read later, and stands there whole.
func shownContent(m *conversation.Message) string {
	var b strings.Builder
	at := 0
	for _, f := range m.Files {
		from, to := f.Body.From, f.Body.To
		if f.ID == 0 || to-from <= maxShownFile || from < at || to > len(m.Content) {
			continue
		}
		end := from + maxShownFile
		for end > from && !utf8.RuneStart(m.Content[end]) {
			end--
		}
		b.WriteString(m.Content[at:end])
		fmt.Fprintf(&b, "\n[… cut: this is the beginning of file %s; read_file shows the rest …]", f.Name)
		at = to
	}
	if at == 0 {
		return m.Content
	}
	return b.String() + m.Content[at:]
}

// SenderName returns the name by which people and the model know a sender. It reads
// as nothing but a name: see plaintext.Name.
func SenderName(s conversation.Sender) string {
	if name := plaintext.ShortLine(plaintext.Name(s.Name), 64); name != "" {
		return name
	}
	return "user " + plaintext.ShortLine(s.ID, 64)
}

// Rows returns messages of the model's list as messages to store.
func Rows(messages []Entry) []conversation.Message {
	list := make([]conversation.Message, len(messages))
	for i, e := range messages {
		list[i] = conversation.Message{
			Role:       conversation.Role(e.Role),
			Content:    e.Content,
			ToolCallID: e.ToolCallID,
			ToolName:   e.Name,
			Tokens:     e.Tokens,
			Images:     e.pictures,
			Files:      e.files,

			FinishReason: e.Finish,
			Failed:       e.Failed,
			Reasoning:    e.Reasoning,
		}
		for _, call := range e.ToolCalls {
			list[i].ToolCalls = append(list[i].ToolCalls, conversation.ToolCall(call))
		}
	}
	return list
}

// LastTurn returns the newest turn of the history, with its answer if it has
// one.
func LastTurn(history []conversation.Message) []conversation.Message {
	for i := len(history) - 1; i >= 0; i-- {
		if i == 0 || history[i].StartsTurn(&history[i-1]) {
			return history[i:]
		}
	}
	return nil
}

// UserMessages returns the user messages that a turn begins with; none where
// a program began it.
func UserMessages(turn []conversation.Message) []conversation.Message {
	n := 0
	for n < len(turn) && turn[n].Role == conversation.RoleUser {
		n++
	}
	return turn[:n:n]
}

// withoutLeftOut returns messages with a notice in place of those that are left out, one for all that follow one another.
func withoutLeftOut(list []conversation.Message, counter Counter) []conversation.Message {
	isLeftOut := func(m conversation.Message) bool { return m.State == conversation.LeftOut }
	if !slices.ContainsFunc(list, isLeftOut) {
		return list
	}
	var shown []conversation.Message
	for i := 0; i < len(list); i++ {
		m, n := list[i], 1
		if !isLeftOut(m) {
			shown = append(shown, m)
			continue
		}
		for i+1 < len(list) && isLeftOut(list[i+1]) {
			i, n = i+1, n+1
		}
		notice := conversation.Message{Seq: m.Seq, RunID: m.RunID, Role: m.Role, At: m.At,
			Content: fmt.Sprintf("[%d messages are left out here: their sender wrote too many at once.]", n)}
		notice.Tokens = counter.Message(ToModel(&notice))
		shown = append(shown, notice)
	}
	return shown
}
