package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/activity"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/catalog"
	"parley/conversation/kept"
	"parley/conversation/runs"
	"parley/httpserver"
)

func (c *Channel) followOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "follow-session", Method: http.MethodGet, Path: pathOfSession + "/events", Tags: []string{tagMessages},
			Summary: "Follow a session",
			Description: "A stream of server-sent events: message and notice for what is stored, with ids, delta, reset, tool_call and tool_result of the run under way, and approval for a tool call that waits for an answer. " +
				"It goes on where Last-Event-ID says, also after a restart; without it, it begins with what is new.",
		}, c.followSession).tells(http.StatusOK, "The stream", "", eventType),
	}
}

// readAtOnce is how many messages and notices of a session are read at a time.
const readAtOnce = 100

type followSession struct {
	OfSession
	Last string `header:"Last-Event-ID" doc:"The id of the last event that was received"`
}

// followSession streams the events of a session of any channel.
func (c *Channel) followSession(ctx context.Context, in *followSession) (*huma.StreamResponse, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	s := &sessionStream{channel: c, key: key, watch: c.Feed.Watch(key)}
	if in.Last != "" {
		var ok bool
		if s.at, ok = hosted.ParsePosition(in.Last); !ok {
			err = problem(http.StatusBadRequest, "The Last-Event-ID %q is not one that this stream gave.", shorten(in.Last))
		}
	} else {
		s.at, err = c.newest(ctx, key)
	}
	if err != nil {
		s.watch.Close()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		defer s.watch.Close()
		_, w := humago.Unwrap(ctx)
		s.Events = httpserver.OpenEvents(w)
		s.run(ctx.Context())
	}}, nil
}

// newest returns the position of a stream that begins now.
func (c *Channel) newest(ctx context.Context, key conversation.Key) (hosted.Position, error) {
	active, err := c.Store.Active(ctx, key)
	if err != nil {
		return hosted.Position{}, err
	}
	at := active
	if active.Messages == 0 { // what is archived is not new either
		used, _, err := catalog.New(c.Store).Conversations(ctx, catalog.ConversationQuery{Key: key, Limit: 1})
		if err != nil {
			return hosted.Position{}, err
		}
		if len(used) > 0 {
			at = used[0]
		}
	}
	p := hosted.Position{Seq: at.Messages}
	if at.Messages > 0 {
		p.Conversation = at.ID
	}
	for {
		some, err := kept.New(c.Store).Notices(ctx, key, p.Notice, readAtOnce)
		if err != nil || len(some) == 0 {
			return p, err
		}
		p.Notice = some[len(some)-1].ID
	}
}

// sessionStream follows a session for one client.
type sessionStream struct {
	follower
	*httpserver.Events
	channel *Channel
	key     conversation.Key
	watch   *activity.Watch
	at      hosted.Position
	told    int64 // ID of the newest question that was sent
	stored  int64 // ID of the latest run that was seen in the store: it is no longer under way
}

// notice is a reply that is no message of a conversation.
type notice struct {
	Asked  string    `json:"asked,omitempty"` // the command that the notice answers
	Status string    `json:"status"`
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
}

// run sends what is new until the client is gone or the server ends. It reads the
// store when something may be new there: when it is said so, when no run is under way, or another
// one than a moment ago.
func (s *sessionStream) run(ctx context.Context) {
	if s.Send(httpserver.Event{ID: s.at.String(), Name: eventAccepted, Data: `{}`}) != nil {
		return
	}
	known := int64(-1)                                                                        // the run that was under way
	_ = httpserver.Follow(ctx, s.watch.C(), nil, s.Beat, func(readStore bool) (bool, error) { // a client that is gone has ended it
		changed := s.watch.Stored()
		p, working := s.watch.Now()
		if !working {
			p.Run = 0
		}
		if readStore || changed || !working || p.Run != known {
			if err := s.readStored(ctx); err != nil {
				s.failed(ctx, err)
				return false, err
			}
			known = p.Run
		}
		if working && p.Run > s.stored {
			if events := s.follow(p); len(events) > 0 {
				return false, s.Send(events...)
			}
		}
		return false, nil
	})
}

func (s *sessionStream) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.channel.Log.Error("API event stream failed", "session", s.key, "error", err)
	}
}

// readStored sends what the store has after the stream's position. Conversations
// used since then are sent from their beginning.
func (s *sessionStream) readStored(ctx context.Context) error {
	active, err := s.channel.Store.Active(ctx, s.key)
	if err != nil {
		return err
	}
	list := []conversation.Conversation{active}
	if active.ID != s.at.Conversation {
		if list, err = s.usedSince(ctx, active); err != nil {
			return err
		}
	}
	for _, one := range list {
		if one.ID != s.at.Conversation {
			s.at.Conversation, s.at.Seq = one.ID, 0
		}
		if one.Messages > s.at.Seq {
			if err := s.readMessages(ctx, one.ID); err != nil {
				return err
			}
		}
	}
	if err := s.readNotices(ctx); err != nil {
		return err
	}
	return s.readQuestions(ctx)
}

// readQuestions sends the open questions that were not sent yet.
func (s *sessionStream) readQuestions(ctx context.Context) error {
	open, err := approvals.New(s.channel.Store).Open(ctx, s.key)
	if err != nil {
		return err
	}
	for _, q := range open {
		if q.ID <= s.told {
			continue
		}
		s.told = q.ID
		if err := s.Send(event(eventApproval, approvalOf(q))); err != nil {
			return err
		}
	}
	return nil
}

// usedSince returns the conversation of the stream's position and those used
// after it, in this order. Where that conversation is gone or belongs to another
// session, it returns only the active one.
func (s *sessionStream) usedSince(ctx context.Context, active conversation.Conversation) (list []conversation.Conversation, err error) {
	query := catalog.ConversationQuery{Key: s.key, Limit: readAtOnce}
	for {
		page, next, err := catalog.New(s.channel.Store).Conversations(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, one := range page { // the last used first
			list = append(list, one)
			if one.ID == s.at.Conversation {
				slices.Reverse(list)
				return list, nil
			}
		}
		if query.From = next; next == "" {
			break
		}
	}
	switch {
	case s.at.Conversation == "":
		slices.Reverse(list)
		return list, nil
	case active.Messages > 0:
		return []conversation.Conversation{active}, nil
	}
	return nil, nil
}

func (s *sessionStream) readMessages(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	of, err := s.channel.Store.Conversation(ctx, id)
	if err != nil {
		return err
	}
	q := conversation.MessageQuery{Conversation: id, View: conversation.ViewTalk, After: s.at.Seq}
	for m, err := range s.channel.Store.AllMessages(ctx, q) {
		if err != nil {
			return err
		}
		s.at.Seq, s.stored = m.Seq, max(s.stored, m.RunID)
		by, err := runs.Of(ctx, s.channel.Store, of, []conversation.Message{m})
		if err != nil {
			return err
		}
		e := event(eventMessage, messageOf(id, m, m.State).writtenBy(by[m.RunID]))
		e.ID = s.at.String()
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *sessionStream) readNotices(ctx context.Context) error {
	for {
		some, err := kept.New(s.channel.Store).Notices(ctx, s.key, s.at.Notice, readAtOnce)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, n := range some {
			s.at.Notice, s.stored = n.ID, max(s.stored, n.RunID)
			e := event(eventNotice, notice{n.Asked, string(n.Status), n.Text, n.At.UTC()})
			e.ID = s.at.String()
			if err := s.Send(e); err != nil {
				return err
			}
		}
	}
}
