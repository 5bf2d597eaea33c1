package web

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/kept"
	"parley/conversation/runs"
	"parley/conversation/steps"
)

// The kinds of items, which are also their classes in the page.
const (
	kindUser      = "user"
	kindAssistant = "assistant"
	kindTools     = "tools"
	kindNotice    = "notice"
)

// item is one element of a transcript in a page. It never changes, so a page that
// has one need not be sent it again.
type item struct {
	ID   string // id of the HTML element
	Seq  int64  // seq of the message, or of the message that a notice follows; 0 while the message waits
	Run  int64  // ID of the run that it belongs to, 0 for none; the ID of a run is that of its first inbound, so runs are ordered by it
	Kind string
	Text string
	At   time.Time

	Waiting    bool       // user: no run has settled it
	Enclosed   []enclosed // files of a user's message; pictures and imported files of an answer
	Stopped    bool       // assistant: a person has stopped the answer
	Cut        string     // assistant: why the answer is incomplete, in words; "" if it is complete
	Unfinished bool       // assistant: the model can go on with it
	Calling    bool       // assistant: tools are called next, and the answer follows
	Calls      []toolUse  // tools: the tool calls, with their results
	Thought    string     // assistant: what the model thought before the answer
	By         string     // assistant: the model, and the agent if it is not the usual one
	Warnings   []string   // what readers should know beside the text, as Markdown

	Versions *versions // user, assistant: the versions of the message; nil if it is the only one

	Asked  string // notice: the command that it answers
	Failed bool   // notice: the run that it tells of has failed
	Offers []conversation.Action
	File   *file

	Action string // address to which its forms are sent; "" where nothing can be sent
}

// versions are those of a message that was edited, or of an answer that was made anew.
type versions struct {
	Number, Count int
	Before, After int64 // seqs of the versions before and after this one; 0 for none
}

// enclosed is a picture or a file that came with a message.
type enclosed struct {
	Name    string
	Picture string // address of a picture; "" for another file
	URL     string // address of the file; "" if the file is not kept
	Problem string // why the file could not be kept or read
	Text    string // text that the model is shown of the file
}

// toolUse is a tool call with its result.
type toolUse struct {
	ID, Name, Arguments string
	Done                bool
	Result, Error       string
	Pictures            []enclosed // pictures of the result
}

// file is a file that a notice offers for download.
type file struct{ Name, URL string }

// itemsOf returns the items of messages, in order. base is the address of their
// conversation, and by has what has answered in their runs.
func itemsOf(records []conversation.Message, base string, by map[int64]runs.Answered) []item {
	var list []item
	var ofTools []enclosed // pictures of the turn, which the answer shows if it names them
	for _, r := range records {
		if r.Hidden() {
			continue
		}
		seq := strconv.FormatInt(r.Seq, 10)
		switch r.Role {
		case conversation.RoleUser:
			ofTools = nil
			list = append(list, userItem(r, base))
		case conversation.RoleAssistant:
			if r.Content != "" || len(r.Images) > 0 || r.Reasoning != "" {
				list = append(list, assistantItem(r, base, ofTools, by[r.RunID]))
			}
			if len(r.ToolCalls) > 0 {
				list = append(list, item{ID: "t" + seq, Seq: r.Seq, Kind: kindTools, At: r.At, Calls: calls(r.ToolCalls)})
			}
		case conversation.RoleTool:
			ofTools = append(ofTools, picturesOf(r, base)...)
			if n := len(list); n > 0 {
				answerCall(list[n-1].Calls, r, base)
			}
		}
	}
	addWarnings(list, records, by)
	return list
}

// addWarnings adds what the runs of messages warn of to the answers that end them. A run that
// ends without one has a notice, which has its warnings.
func addWarnings(list []item, records []conversation.Message, by map[int64]runs.Answered) {
	warnings := map[int64][]string{} // by the seq of the answer
	for _, r := range records {
		if r.Role == conversation.RoleAssistant && len(r.ToolCalls) == 0 {
			warnings[r.Seq] = by[r.RunID].Warnings
		}
	}
	for i := range list {
		list[i].Warnings = warnings[list[i].Seq]
	}
}

// answeredBy returns what has answered in words, "" where it is not known.
func answeredBy(a runs.Answered) string {
	if a.Agent == "" || a.Model == "" {
		return a.Model
	}
	return a.Agent + " · " + a.Model
}

func userItem(m conversation.Message, base string) item {
	text, files := filesOf(m, base)
	return item{ID: "m" + strconv.FormatInt(m.Seq, 10), Seq: m.Seq, Run: m.RunID, Kind: kindUser, Text: text, At: m.At, Enclosed: append(picturesOf(m, base), files...)}
}

// assistantItem returns the item of what the model wrote. It shows those pictures of tools that it names.
func assistantItem(m conversation.Message, base string, ofTools []enclosed, by runs.Answered) item {
	text, files := filesOf(m, base)
	return item{
		ID: "m" + strconv.FormatInt(m.Seq, 10), Seq: m.Seq, Run: m.RunID, Kind: kindAssistant, Text: text, Thought: m.Reasoning, By: answeredBy(by), At: m.At,
		Enclosed:   slices.Concat(picturesOf(m, base), namedIn(text, ofTools), files),
		Stopped:    m.Stopped,
		Cut:        m.FinishReason.Words(),
		Unfinished: m.FinishReason == steps.FinishLength || m.FinishReason == steps.FinishCutOff || m.Stopped,
		Calling:    len(m.ToolCalls) > 0 && !m.Stopped,
	}
}

// isStep reports whether an item is a step on the way to an answer.
func (e item) isStep() bool { return e.Kind == kindTools || e.Calling }

// filesOf returns what a message says without the lines about its files, and the files.
func filesOf(m conversation.Message, base string) (said string, list []enclosed) {
	said, texts := m.SplitFiles()
	for n, text := range texts {
		file := enclosed{Name: m.Files[n].Name, Problem: m.Files[n].Problem, Text: text}
		if m.Files[n].ID != 0 {
			file.URL = base + "/attachment/" + strconv.FormatInt(m.Seq, 10) + "/" + strconv.Itoa(n)
		}
		list = append(list, file)
	}
	return said, list
}

// picturesOf returns the pictures of a message, that somebody sent, or the model or a tool made.
func picturesOf(m conversation.Message, base string) (list []enclosed) {
	for n, image := range m.Images {
		address := base + "/image/" + strconv.FormatInt(m.Seq, 10) + "/" + strconv.Itoa(n)
		list = append(list, enclosed{Name: image.Name, Picture: address})
	}
	return list
}

// namedIn returns the pictures whose names an answer contains, each once.
func namedIn(answer string, pictures []enclosed) (list []enclosed) {
	for _, p := range pictures {
		if strings.Contains(answer, p.Name) && !slices.ContainsFunc(list, func(q enclosed) bool { return q.Name == p.Name }) {
			list = append(list, p)
		}
	}
	return list
}

func calls(asked []conversation.ToolCall) []toolUse {
	uses := make([]toolUse, len(asked))
	for i, call := range asked {
		uses[i] = toolUse{ID: call.ID, Name: call.Name, Arguments: readable(call.Arguments), Done: true}
	}
	return uses
}

// answerCall adds a result to its call. The text of a failure begins with "error:
// " for the model; people are shown what follows.
func answerCall(uses []toolUse, result conversation.Message, base string) {
	for i := range uses {
		if uses[i].ID != result.ToolCallID {
			continue
		}
		if result.Failed {
			uses[i].Error = strings.TrimPrefix(result.Content, "error: ")
		} else {
			uses[i].Result, uses[i].Pictures = result.Content, picturesOf(result, base)
		}
		return
	}
}

// readable returns the arguments of a call, and "" when there are none.
func readable(arguments string) string {
	if strings.TrimSpace(arguments) == "{}" {
		return ""
	}
	return arguments
}

// waitingItem returns the item of a message that no run has settled yet.
func waitingItem(in conversation.Inbound) item {
	e := item{ID: "w" + strconv.FormatInt(in.ID, 10), Kind: kindUser, Text: in.Text, At: in.At, Waiting: true}
	for _, a := range in.Attachments {
		e.Enclosed = append(e.Enclosed, enclosed{Name: a.Name})
	}
	return e
}

// questionItems returns the items of open questions about tool calls.
func questionItems(open []approvals.Question, name string) []item {
	var list []item
	for _, q := range open {
		m := q.Message()
		list = append(list, item{ID: "q" + strconv.FormatInt(q.ID, 10), Kind: kindNotice, Text: m.Text, At: q.AskedAt, Offers: m.Actions, Action: "/chat/" + name + "/messages"})
	}
	return list
}

// noticeItem returns the item of a reply that is no message of the conversation. Questions about tool calls
// have their buttons in items of their own, as long as they are open.
func noticeItem(n kept.Notice, chat string) item {
	id := strconv.FormatInt(n.ID, 10)
	e := item{
		ID: "n" + id, Seq: n.After, Run: n.RunID, Kind: kindNotice, Text: n.Text, At: n.At,
		Asked: n.Asked, Failed: n.Status == conversation.StatusFailed, Offers: slices.DeleteFunc(slices.Clone(n.Actions), answersQuestion), Warnings: n.Warnings,
	}
	if e.Failed && n.Kind == conversation.KindAgent && !slices.ContainsFunc(e.Offers, func(a conversation.Action) bool { return a.Command == "/retry" }) {
		e.Offers = append(e.Offers, conversation.Action{Label: "Try again", Command: "/retry"})
	}
	if n.Transcript != nil {
		e.File = &file{Name: n.Transcript.Name, URL: chat + "/file/" + id}
	}
	return e
}

// answersQuestion reports whether an action answers a question about a tool call.
func answersQuestion(a conversation.Action) bool {
	name, _, _ := strings.Cut(a.Command, " ")
	return name == "/approve" || name == "/deny" || name == "/answer"
}

// damagedItem stands for the messages of a conversation that can't be read.
var damagedItem = item{
	ID: "damaged", Kind: kindNotice, Failed: true, Offers: []conversation.Action{{Label: "New conversation", Command: "/new"}},
	Text: "⚠️ What is stored of this conversation can't be read: the database of this gateway is damaged. Its operator has been told. " +
		"`/new` begins a fresh conversation.",
}

// has reports whether a page that is at position p shows an item already.
func has(p hosted.Position, e item) bool {
	if e.Kind == kindNotice {
		id, _ := strconv.ParseInt(e.ID[1:], 10, 64) // made of a number
		return id <= p.Notice
	}
	return e.Seq <= p.Seq
}

// merged inserts notices after the messages that they follow. Both lists are in
// order. It leaves out notices before from, the seq of the first message of a
// page.
func merged(messages, notices []item, from int64) []item {
	var all []item
	for _, n := range notices {
		for len(messages) > 0 && n.follows(messages[0]) {
			all, messages = append(all, messages[0]), messages[1:]
		}
		if n.Seq >= from {
			all = append(all, n)
		}
	}
	return append(all, messages...)
}

// follows reports whether a notice stands behind a message: one that was stored before it, or one
// that waited for its answer when the notice's command was carried out at once.
func (e item) follows(m item) bool {
	return m.Seq <= e.Seq || m.Kind == kindUser && m.Run != 0 && m.Run < e.Run
}

// answerHTML returns the HTML of an answer under way.
func answerHTML(blocks []string) template.HTML { return template.HTML(strings.Join(blocks, "")) }

// VersionAction returns the address of the form that chooses another version.
func (e item) VersionAction() string { return strings.TrimSuffix(e.Action, "messages") + "version" }
