package telegram

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/places"
)

// A group becomes a supergroup when somebody gives it a public name, a history for
// newcomers, topics and the like. It then has another id, and its messages are
// numbered anew. Telegram reports the move by a service message in each of the two
// groups, and in its refusals of messages to the old id:
// https://core.telegram.org/bots/api#responseparameters

// migrations are the groups that became supergroups while this process ran: the
// new ids by the old ones.
type migrations struct {
	mu    sync.Mutex
	known map[int64]int64
}

// currentID returns the id that a chat has by now.
func (ms *migrations) currentID(chat int64) int64 {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if to, moved := ms.known[chat]; moved {
		return to
	}
	return chat
}

func (ms *migrations) add(from, to int64) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.known == nil {
		ms.known = map[int64]int64{}
	}
	ms.known[from] = to
}

// migration returns the two ids of a group that became a supergroup, where the
// message says so.
func (m *message) migration() (from, to int64, ok bool) {
	switch {
	case m.MigrateTo != 0:
		from, to = m.Chat.ID, m.MigrateTo
	case m.MigrateFrom != 0:
		from, to = m.MigrateFrom, m.Chat.ID
	}
	return from, to, isGroup(from) && isGroup(to) && from != to
}

// storeMigration stores the migration that a message reports, before the message
// counts as read. It retries while the store fails, and returns an error only
// when ctx ends.
func (c *Channel) storeMigration(ctx context.Context, m *message) error {
	if m == nil {
		return nil
	}
	from, to, ok := m.migration()
	if !ok {
		return nil
	}
	retry := channels.NewRetry(c.log)
	for {
		err := c.moveGroup(ctx, from, to)
		if err == nil {
			retry.Succeeded("migration to a supergroup stored")
			return nil
		}
		if err := retry.Wait(ctx, channels.Trouble{Name: "store", Level: slog.LevelError, Text: "migration to a supergroup not stored, trying again; Telegram keeps the messages"}, err, 0); err != nil {
			return err
		}
	}
}

// moveGroup stores that a group has become a supergroup: it keeps its session,
// and what is to be sent goes to the new id.
func (c *Channel) moveGroup(ctx context.Context, from, to int64) error {
	moved, err := c.places.MovePlace(ctx, address{Chat: from}.key(), address{Chat: to}.key(), func(text string) string {
		a, err := parseAddress(text)
		if err != nil || a.Chat != from {
			return text
		}
		moved := address{Chat: to}
		if a.Alone != nil { // Telegram refuses it there, but it must not be shown to everybody
			moved.Alone = &alone{User: a.Alone.User}
		}
		return moved.String()
	})
	if err != nil {
		return err
	}
	c.migrations.add(from, to)
	if moved.IsNew {
		c.log.Info("group migrated to a supergroup, session kept", "chat", from, "new_chat", to, "session", address{Chat: from}.key())
	}
	return nil
}

// formerIDs returns the ids that a supergroup had before it became one.
func (c *Channel) formerIDs(ctx context.Context, chat int64) ([]string, error) {
	former, err := c.places.FormerPlaces(ctx, address{Chat: chat}.key())
	var ids []string
	for _, place := range former {
		ids = append(ids, strings.TrimPrefix(string(place), chatPrefix))
	}
	return ids, err
}

// adviseAbout logs once that allow names a group by a former id.
func (c *Channel) adviseAbout(chat int64, former []string) {
	if _, told := c.advised.LoadOrStore(chat, true); !told {
		c.log.Warn("allow lists a supergroup by its former id: put the new one into allow in [telegram]",
			"former_ids", former, "chat", strconv.FormatInt(chat, 10))
	}
}

// noPlaces is the store of a channel that has none: no group moves.
type noPlaces struct{}

func (noPlaces) MovePlace(context.Context, conversation.Key, conversation.Key, func(string) string) (places.Moved, error) {
	return places.Moved{}, nil
}

func (noPlaces) FormerPlaces(context.Context, conversation.Key) ([]conversation.Key, error) {
	return nil, nil
}

func (noPlaces) PlaceName(context.Context, conversation.Key) (string, error) { return "", nil }
