package conversation

import (
	"context"
	"database/sql"
	"fmt"

	"parley/conversation/internal/db"
)

// ConversationQuery chooses conversations. The zero value means all.
type ConversationQuery struct {
	Key      Key // of the session, "" for all
	Channel  string
	Text     string // stands in the title, in any case of its ASCII letters
	User     string // has written in it: the platform's id, or the name in any case of its ASCII letters
	Metadata Filter // of its session
	Active   bool   // only those that go on
	Archived bool   // only those that are archived
	Order    Order
	From     string // where the page begins, as the page before it says; "" = the first
	Skip     int    // leave out as many first ones
	Limit    int    // 0 = none
}

// Conversations lists conversations in which there are messages. next is
// where the page that follows begins, "" when there is none. A From that no page
// has given is ErrInvalid, and so is a Text of more than 4 KiB.
func (s *Store) Conversations(ctx context.Context, q ConversationQuery) (list []Conversation, next string, err error) {
	from, err := q.Order.parse(q.From)
	if err != nil {
		return nil, "", err
	}
	filter, err := q.Metadata.parameter()
	if err != nil {
		return nil, "", err
	}
	text, err := containing(q.Text)
	if err != nil {
		return nil, "", err
	}
	session := `(:channel = '' OR s.channel = :channel)`
	if q.Key != "" {
		session = `c.session_id = (SELECT id FROM sessions WHERE key = :key) AND ` + session
	}
	rows, err := s.db.QueryContext(ctx, selectConversations+`
		WHERE `+session+` AND c.deleted = 0 AND c.messages > 0
			AND (:text = '%%' OR c.title LIKE :text ESCAPE '\')
			AND (:user = '' OR EXISTS (SELECT 1 FROM participants p WHERE p.conversation_id = c.id AND (p.user_id = :user OR p.name = :user COLLATE NOCASE)))
			AND (NOT :active OR c.active = 1) AND (NOT :archived OR c.active = 0)
			AND `+metadataMatches("s.metadata", ":metadata")+`
			AND `+q.Order.follows("c.updated_at", "c.id")+`
		ORDER BY `+q.Order.by("c.updated_at", "c.id")+` LIMIT :limit OFFSET :skip`,
		sql.Named("key", string(q.Key)), sql.Named("channel", q.Channel), sql.Named("text", text), sql.Named("user", q.User),
		sql.Named("metadata", filter), sql.Named("active", q.Active), sql.Named("archived", q.Archived),
		sql.Named("used", from.used), sql.Named("row", from.row), sql.Named("limit", oneMore(q.Limit)), sql.Named("skip", q.Skip))
	if err != nil {
		return nil, "", db.Explain(err)
	}
	defer rows.Close()
	var place string
	for rows.Next() {
		c, err := scanConversation(rows, &place)
		if err != nil {
			return nil, "", err
		}
		list = append(list, c)
	}
	list, next = cutPage(list, q.Limit, func(last Conversation) string { return q.Order.next(last.UpdatedAt, last.row) })
	return list, next, db.Explain(rows.Err())
}

// Conversation gives the conversation with an ID, of any session, or ErrNotFound.
func (s *Store) Conversation(ctx context.Context, id string) (Conversation, error) {
	var place string
	c, err := scanConversation(s.db.QueryRowContext(ctx, selectConversations+`WHERE c.uuid = ? AND c.deleted = 0`, id), &place)
	if err != nil {
		return c, db.Explain(fmt.Errorf("%w: %q", notFound(err), id))
	}
	return c, nil
}
