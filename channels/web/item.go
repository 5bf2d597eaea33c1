package web

import (
	"html/template"
	"strconv"
	"strings"
	"time"

	"parley/channels/hosted"
	"parley/conversation"
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
	ID   string // in the page
	Seq  int64  // of the message, or of the one that a notice stands behind; 0 while it waits
	Kind string
	Text string
	At   time.Time

	Waiting  bool       // user: no run has settled it
	Enclosed []enclosed // user
	Stopped  bool       // assistant: cut short
	Cut      string     // assistant: why it is not whole, in words; "" for a whole one
	Calls    []toolUse  // tools

	Asked  string // notice: the command
	Failed bool   // notice: the run that it tells of has failed
	Offers []conversation.Action
	File   *file

	Action string // of its forms, "" where nothing can be sent
}

// enclosed is a picture or a file that came with a message.
type enclosed struct {
	Name    string
	Picture string // its address, "" for a file
	URL     string // where the file can be had, "" for one that is not kept
	Problem string // why it could not be kept or read
	Text    string // of a file that was read
}

// toolUse is a tool call with its result.
type toolUse struct {
	ID, Name, Arguments string
	Done                bool
	Result, Error       string
}

// file is a file that a notice offers for download.
type file struct{ Name, URL string }

// itemsOf returns the items of messages, in order. base is the address of their
// conversation.
func itemsOf(records []conversation.Message, base string) []item {
	var list []item
	for _, r := range records {
		if r.Hidden() {
			continue
		}
		seq := strconv.FormatInt(r.Seq, 10)
		switch r.Role {
		case conversation.RoleUser:
			list = append(list, userItem(r, "m"+seq, base))
		case conversation.RoleAssistant:
			if r.Content != "" {
				list = append(list, item{ID: "m" + seq, Seq: r.Seq, Kind: kindAssistant, Text: r.Content, At: r.At, Stopped: r.Stopped, Cut: r.FinishReason.Words()})
			}
			if len(r.ToolCalls) > 0 {
				list = append(list, item{ID: "t" + seq, Seq: r.Seq, Kind: kindTools, At: r.At, Calls: calls(r.ToolCalls)})
			}
		case conversation.RoleTool:
			if n := len(list); n > 0 {
				answerCall(list[n-1].Calls, r)
			}
		}
	}
	return list
}

func userItem(m conversation.Message, id, base string) item {
	text, files := m.SplitFiles()
	e := item{ID: id, Seq: m.Seq, Kind: kindUser, Text: text, At: m.At}
	for n, image := range m.Images {
		address := base + "/image/" + strconv.FormatInt(m.Seq, 10) + "/" + strconv.Itoa(n)
		e.Enclosed = append(e.Enclosed, enclosed{Name: image.Name, Picture: address})
	}
	for n, text := range files {
		file := enclosed{Name: m.Files[n].Name, Problem: m.Files[n].Problem, Text: text}
		if m.Files[n].ID != 0 {
			file.URL = base + "/attachment/" + strconv.FormatInt(m.Seq, 10) + "/" + strconv.Itoa(n)
		}
		e.Enclosed = append(e.Enclosed, file)
	}
	return e
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
func answerCall(uses []toolUse, result conversation.Message) {
	for i := range uses {
		if uses[i].ID != result.ToolCallID {
			continue
		}
		if result.Failed {
			uses[i].Error = strings.TrimPrefix(result.Content, "error: ")
		} else {
			uses[i].Result = result.Content
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

// noticeItem returns the item of a reply that is no message of the conversation.
func noticeItem(n conversation.Notice, chat string) item {
	id := strconv.FormatInt(n.ID, 10)
	e := item{
		ID: "n" + id, Seq: n.After, Kind: kindNotice, Text: n.Text, At: n.At,
		Asked: n.Asked, Failed: n.Status == conversation.StatusFailed, Offers: n.Actions,
	}
	if e.Failed && n.Kind == conversation.KindAgent {
		e.Offers = append(e.Offers, conversation.Action{Label: "Try again", Command: "/retry"})
	}
	if n.Transcript != nil {
		e.File = &file{Name: n.Transcript.Name, URL: chat + "/file/" + id}
	}
	return e
}

// damagedItem stands for the messages of a conversation that can't be read.
var damagedItem = item{
	ID: "damaged", Kind: kindNotice, Failed: true, Offers: []conversation.Action{{Label: "New conversation", Command: "/new"}},
	Text: "⚠️ What is stored of this conversation can't be read: the database of this gateway is damaged. Its operator has been told. " +
		"`/new` begins a fresh conversation.",
}

// has reports whether a page at a position has an item already.
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
		for len(messages) > 0 && messages[0].Seq <= n.Seq {
			all, messages = append(all, messages[0]), messages[1:]
		}
		if n.Seq >= from {
			all = append(all, n)
		}
	}
	return append(all, messages...)
}

// answerHTML returns the HTML of an answer under way.
func answerHTML(blocks []string) template.HTML { return template.HTML(strings.Join(blocks, "")) }
