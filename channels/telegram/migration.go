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
// numbered anew. Telegram tells it by a service message in each of the two, and by
// its answer to whoever writes to the old id:
// https://core.telegram.org/bots/api#responseparameters

// migrations are the groups that became supergroups while this process ran: the
// new ids by the old ones.
type migrations struct {
	mu    sync.Mutex
	known map[int64]int64
}

// now is the id that a chat has by now.
func (ms *migrations) now(chat int64) int64 {
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

// migration is what a service message tells of a group that became a supergroup.
func (m *message) migration() (from, to int64, ok bool) {
	switch {
	case m.MigrateTo != 0:
		from, to = m.Chat.ID, m.MigrateTo
	case m.MigrateFrom != 0:
		from, to = m.MigrateFrom, m.Chat.ID
	}
	return from, to, isGroup(from) && isGroup(to) && from != to
}

// migrates stores what a message tells of a migration, before the message counts
// as read. While the store takes nothing it tries again, until ctx ends, which is
// the only error.
func (c *Channel) migrates(ctx context.Context, m *message) error {
	if m == nil {
		return nil
	}
	from, to, ok := m.migration()
	if !ok {
		return nil
	}
	retry := channels.NewRetry(c.log)
	for {
		err := c.migrated(ctx, from, to)
		if err == nil {
			retry.Succeeded("resolved")
			return nil
		}
		if err := retry.Wait(ctx, channels.Trouble{Name: "store", Level: slog.LevelError, Text: "a group that became a supergroup can't be stored; Telegram keeps its messages until it can"}, err, 0); err != nil {
			return err
		}
	}
}

// migrated stores that a group has become a supergroup: it keeps its session, and
// what is on its way goes to the new id.
func (c *Channel) migrated(ctx context.Context, from, to int64) error {
	moved, err := c.places.MovePlace(ctx, address{Chat: from}.key(), address{Chat: to}.key(), func(text string) string {
		a, err := parseAddress(text)
		if err != nil || a.Chat != from {
			return text
		}
		return address{Chat: to}.String()
	})
	if err != nil {
		return err
	}
	c.migrations.add(from, to)
	if moved.IsNew {
		c.log.Info("a group became a supergroup and keeps its session", "chat", from, "new_chat", to, "session", address{Chat: from}.key())
	}
	return nil
}

// formerIDs are the ids that a supergroup had before it became one.
func (c *Channel) formerIDs(ctx context.Context, chat int64) ([]string, error) {
	former, err := c.places.FormerPlaces(ctx, address{Chat: chat}.key())
	var ids []string
	for _, place := range former {
		ids = append(ids, strings.TrimPrefix(string(place), chatPrefix))
	}
	return ids, err
}

// adviseAbout says once that allow admits a group by an id that it has no more.
func (c *Channel) adviseAbout(chat int64, former []string) {
	if _, told := c.advised.LoadOrStore(chat, true); !told {
		c.log.Warn("a group is let in by the id that it had before it became a supergroup: put the new one into allow in [telegram]",
			"former_ids", former, "chat", strconv.FormatInt(chat, 10))
	}
}

// noPlaces stands for a store where there is none: nothing ever moves.
type noPlaces struct{}

func (noPlaces) MovePlace(context.Context, conversation.Key, conversation.Key, func(string) string) (places.Moved, error) {
	return places.Moved{}, nil
}

func (noPlaces) FormerPlaces(context.Context, conversation.Key) ([]conversation.Key, error) {
	return nil, nil
}
