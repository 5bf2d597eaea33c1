package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/files"
)

const (
	messagesPerPage = 100
	aroundHit       = 10 // messages before the one that a link leads to
)

type transcriptPage struct {
	conversation.Conversation
	Tab      string // "transcript"
	People   []conversation.Sender
	AtWork   bool
	Messages []messageRow

	First, Earlier, Later, Newest string // addresses, "" where that is shown
}

// messageRow is a message as a page shows it.
type messageRow struct {
	conversation.Message
	Name     string   // who has written the message
	Marks    []string // why the message is not an ordinary one
	Pictures []picture
	Trace    string // address of the run that wrote the message; "" for none
}

type picture struct{ Name, URL string }

// showTranscript shows a page of a conversation: the newest, or the one that the
// address asks for by ?before=SEQ, ?after=SEQ or ?at=SEQ.
func (c *Console) showTranscript(w http.ResponseWriter, r *http.Request) {
	of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	p := transcriptPage{Conversation: of, Tab: "transcript", AtWork: of.Active && c.atWork(of.Key)}
	var err error
	if p.People, err = catalog.New(c.Store).Participants(r.Context(), of.ID); err == nil {
		err = c.readMessages(r.Context(), &p, transcriptQuery(r, of))
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.show(w, r, "transcript.html", "sessions", titleOf(of), p)
}

func transcriptQuery(r *http.Request, of conversation.Conversation) conversation.MessageQuery {
	q := conversation.MessageQuery{Conversation: of.ID, View: conversation.ViewAll, Limit: messagesPerPage}
	switch ask := r.URL.Query(); {
	case ask.Has("at"):
		q.After, q.Forward = max(number(r, "at", 1, of.Messages)-aroundHit, 0), true
	case ask.Has("after"):
		q.After, q.Forward = number(r, "after", 0, of.Messages), true
	case ask.Has("before"):
		q.Before = number(r, "before", 1, of.Messages+1)
	}
	return q
}

func (c *Console) readMessages(ctx context.Context, p *transcriptPage, q conversation.MessageQuery) error {
	page, err := c.Store.Messages(ctx, q)
	if err != nil || len(page.Messages) == 0 {
		return err
	}
	for _, record := range page.Messages {
		p.Messages = append(p.Messages, entryOf(p.ID, record, p.People))
	}
	base := "/console/conversation/" + p.ID
	first, last := page.Messages[0].Seq, page.Messages[len(page.Messages)-1].Seq
	if first > 1 {
		p.First, p.Earlier = base+"?after=0", fmt.Sprintf("%s?before=%d", base, first)
	}
	if last < p.Conversation.Messages {
		p.Newest, p.Later = base, fmt.Sprintf("%s?after=%d", base, last)
	}
	return nil
}

func entryOf(id string, record conversation.Message, people []conversation.Sender) messageRow {
	m := messageRow{Message: record, Marks: marksOf(record)}
	switch record.Role {
	case conversation.RoleUser:
		m.Name = senderName(record.Sender)
		if record.Sender == (conversation.Sender{}) && len(people) == 1 {
			m.Name = senderName(people[0]) // in a private chat it is not stored with each message
		}
	case conversation.RoleTool:
		m.Name = record.ToolName
	case conversation.RoleSystem:
		m.Name = "System"
	default:
		m.Name = "Assistant"
	}
	for n, image := range record.Images {
		m.Pictures = append(m.Pictures, picture{image.Name, fmt.Sprintf("/console/conversation/%s/image/%d/%d", id, record.Seq, n)})
	}
	if record.RunID != 0 {
		m.Trace = fmt.Sprintf("/console/conversation/%s/trace?before=%d#run-%d", id, record.RunID+1, record.RunID)
	}
	return m
}

func marksOf(record conversation.Message) []string {
	var marks []string
	if record.Internal {
		marks = append(marks, "internal")
	}
	if words := map[string]string{"stopped": "stopped", "replaced": "answered anew", "undone": "taken back"}[record.State]; words != "" {
		marks = append(marks, words)
	}
	if words := record.FinishReason.Words(); words != "" {
		marks = append(marks, words)
	}
	return marks
}

// sendImage serves a picture of a message.
func (c *Console) sendImage(w http.ResponseWriter, r *http.Request) {
	seq, seqErr := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	n, nErr := strconv.Atoi(r.PathValue("n"))
	if seqErr != nil || nErr != nil {
		c.fail(w, r, conversation.ErrNotFound)
		return
	}
	image, err := files.New(c.Store).ImageAt(r.Context(), r.PathValue("id"), seq, n)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", image.MediaType)
	w.Header().Set("Cache-Control", "private, max-age=86400") // a message never changes
	_, _ = w.Write(image.Data)                                // a browser that went away misses nothing
}
