package web

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/activity"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/branches"
	"parley/conversation/deferred"
	"parley/conversation/kept"
	"parley/conversation/runs"
	"parley/pages"
)

// pageSize is how many messages a page shows at first, and how many more each
// time that somebody asks for earlier ones.
const pageSize = 60

const (
	maxWaiting  = 50  // messages without an answer that are shown
	noticesRead = 500 // notices of a chat that are read at once; they are kept for a week
)

// view is the state of a chat as a page shows it.
type view struct {
	conversation.Conversation
	stored   bool // the conversation has messages
	damaged  bool // the messages can't be read, because the database is damaged there
	entries  []item
	earlier  int64 // seq before which there are more messages; 0 for none
	replaced int64 // seq of the message that a waiting edit replaces; 0 for none. The page shows the edit in place of that turn
	oldest   int64 // inbound ID of the first message that waits; 0 for none
	waiting  []item
	asides   []item // notices of commands that came while a message waited, and were carried out at once
	progress activity.Progress
	working  bool
	at       hosted.Position
}

// read returns the active conversation of a chat and the run under way. A run
// that the store holds already is not under way any more.
func (c *Channel) read(ctx context.Context, name string, w *activity.Watch) (view, error) {
	var t view
	t.progress, t.working = w.Now() // before the store, so that nothing falls between the two
	var err error
	t.Conversation, err = c.Store.Active(ctx, keyOf(name))
	if conversation.IsDamaged(err) {
		t.Conversation, t.damaged, err = conversation.Conversation{Key: keyOf(name)}, true, nil
	}
	if err != nil {
		return t, err
	}
	waiting, err := c.Store.Inbox(ctx, keyOf(name), maxWaiting)
	if err != nil {
		return t, err
	}
	if len(waiting) > 0 {
		t.oldest = waiting[0].ID
		if waiting[0].Replaces.Conversation == t.ID {
			t.replaced = waiting[0].Replaces.Seq
		}
	}
	if err := c.readItems(ctx, &t, name, math.MaxInt64); err != nil {
		return t, err
	}
	return t, c.addWaiting(ctx, &t, name, waiting)
}

// addWaiting adds the messages that wait for an answer. Behind the messages that they belong to
// stand the open questions, and the notices of commands that were carried out at once.
func (c *Channel) addWaiting(ctx context.Context, t *view, name string, waiting []conversation.Inbound) error {
	open, err := approvals.New(c.Store).Open(ctx, keyOf(name))
	if err != nil && !conversation.IsDamaged(err) {
		return err
	}
	isDeferred := false
	for _, in := range waiting {
		for len(t.asides) > 0 && in.At.After(t.asides[0].At) {
			t.waiting, t.asides = append(t.waiting, t.asides[0]), t.asides[1:]
		}
		if len(open) > 0 && in.At.After(open[0].AskedAt) {
			t.waiting, open = append(t.waiting, questionItems(open, name)...), nil
		}
		t.waiting = append(t.waiting, waitingItem(in))
		if !in.DeferredSince.IsZero() && !isDeferred {
			isDeferred = true
			t.waiting = append(t.waiting, item{ID: "d" + strconv.FormatInt(in.ID, 10), Kind: kindNotice, Text: deferred.Words, At: in.DeferredSince})
		}
	}
	t.waiting = append(append(t.waiting, t.asides...), questionItems(open, name)...)
	return nil
}

// readItems reads the newest messages before a seq, and the notices among them.
func (c *Channel) readItems(ctx context.Context, t *view, name string, before int64) error {
	t.stored = t.Messages > 0
	address := addressOf(name, t.Conversation)
	var page conversation.Page
	from := int64(0)
	if t.stored {
		var err error
		page, err = c.Store.Messages(ctx, conversation.MessageQuery{
			Conversation: t.ID, View: conversation.ViewTalk, Before: before, Limit: pageSize,
		})
		if conversation.IsDamaged(err) {
			t.damaged, page, err = true, conversation.Page{}, nil
		}
		if err != nil {
			return err
		}
		if page.More {
			from = page.Messages[0].Seq
			t.earlier = from
		}
		t.at = hosted.Position{Conversation: t.ID, Seq: t.Messages} // the newest seq, which may be of one that is not shown
		if shown := withoutReplaced(page.Messages, t.replaced); len(shown) < len(page.Messages) {
			page.Messages, t.at.Seq = shown, t.replaced-1
		}
	}
	for _, r := range page.Messages {
		if t.working && r.RunID == t.progress.Run {
			t.working = false
		}
	}
	notices, err := c.noticesOf(ctx, t, name, from, before)
	by, unread := runs.Of(ctx, c.Store, t.Conversation, page.Messages)
	if unread != nil && !conversation.IsDamaged(unread) {
		return unread
	}
	items := itemsOf(page.Messages, address, by)
	if len(items) > 0 && t.Active {
		if err := c.addVersions(ctx, t, items); err != nil && !conversation.IsDamaged(err) {
			return err
		}
	}
	t.entries = merged(items, notices, from)
	if t.damaged {
		t.entries = append([]item{damagedItem}, t.entries...)
	}
	if conversation.IsDamaged(err) { // the chat goes without them
		err = nil
	}
	return err
}

// withoutReplaced returns messages without those from the seq replaced on, 0 for none.
func withoutReplaced(messages []conversation.Message, replaced int64) []conversation.Message {
	from := slices.IndexFunc(messages, func(m conversation.Message) bool { return m.Seq == replaced })
	if from < 0 {
		return messages
	}
	return messages[:from]
}

// addVersions tells the items with which branches begin which versions there are.
func (c *Channel) addVersions(ctx context.Context, t *view, items []item) error {
	forks, err := branches.New(c.Store).Forks(ctx, t.Conversation)
	if err != nil {
		return err
	}
	for _, fork := range forks {
		first := slices.IndexFunc(items, func(e item) bool { return e.Seq >= fork.Versions[fork.Chosen] })
		if first < 0 || first == 0 && t.earlier > 0 && items[0].Seq != fork.Versions[fork.Chosen] {
			continue // it is on an earlier page
		}
		if items[first].isStep() { // versions stand below the answer that it leads to
			next := slices.IndexFunc(items[first:], func(e item) bool { return !e.isStep() })
			first += max(next, 0)
		}
		v := &versions{Number: fork.Chosen + 1, Count: len(fork.Versions)}
		if fork.Chosen > 0 {
			v.Before = fork.Versions[fork.Chosen-1]
		}
		if fork.Chosen < v.Count-1 {
			v.After = fork.Versions[fork.Chosen+1]
		}
		items[first].Versions = v
	}
	return nil
}

// noticesOf returns the notices of the conversation that belong to a page. Those that came while
// a message waited are not among them: they stand behind that message.
func (c *Channel) noticesOf(ctx context.Context, t *view, name string, from, before int64) ([]item, error) {
	var list []item
	for after := int64(0); ; {
		some, err := kept.New(c.Store).Notices(ctx, keyOf(name), after, noticesRead)
		if err != nil {
			return nil, err
		}
		for _, n := range some {
			after = n.ID
			if n.Conversation != t.at.Conversation || n.After < from || n.After >= before {
				continue
			}
			if t.working && n.RunID == t.progress.Run {
				t.working = false
			}
			e := noticeItem(n, "/chat/"+name)
			if t.oldest != 0 && n.RunID > t.oldest {
				e.ID, e.Action = "w"+e.ID, "/chat/"+name+"/messages"
				t.asides = append(t.asides, e)
				continue
			}
			t.at.Notice = n.ID
			list = append(list, e)
		}
		if len(some) < noticesRead {
			return list, nil
		}
	}
}

// blocks returns the HTML blocks of the answer under way.
func (t view) blocks() []string { return blocksOf(t.progress) }

func blocksOf(p activity.Progress) []string {
	if w := p.Wait; w.Words != "" {
		return append(pages.AnswerBlocks(p.Earlier, p.Thought, w.Notice), pages.WaitBlock(w.Words, time.Until(w.Until)))
	}
	return pages.AnswerBlocks(p.Earlier, p.Thought, p.Text)
}

// toolsUnderWay returns the tool calls of the run under way.
func (t view) toolsUnderWay() []toolUse { return usesOf(t.progress) }

func usesOf(p activity.Progress) []toolUse {
	uses := make([]toolUse, len(p.Tools))
	for i, call := range p.Tools {
		uses[i] = toolUse{ID: call.ID, Name: call.Name, Arguments: readable(call.Arguments), Done: call.Done, Error: call.Error}
	}
	return uses
}

// addressOf returns the address of a conversation's page.
func addressOf(name string, c conversation.Conversation) string {
	return "/chat/" + name + "/conversation/" + c.ID
}

// titleOf returns the title that pages show for a conversation.
func titleOf(c conversation.Conversation) string {
	if title := strings.TrimSpace(c.Title); title != "" {
		return title
	}
	if c.Messages == 0 {
		return "New chat"
	}
	return "Untitled"
}
