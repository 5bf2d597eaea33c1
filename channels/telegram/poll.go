package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"golang.org/x/sync/errgroup"

	"parley/channels"
	"parley/cluster"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/retry"
	"parley/internal/clock"
)

const (
	pollTimeout = 50 * time.Second       // the longest that the server holds a poll
	pollMargin  = 15 * time.Second       // further time for the answer to arrive
	pollPause   = 100 * time.Millisecond // after an empty answer that did not wait

	allowedUpdates = `["message","edited_message","callback_query","my_chat_member","stopped_message_generation"]` // the types of updates that are read
)

// Run polls from the stored cursor, or has Telegram deliver updates to the
// webhook, until ctx ends. The first poll starts at once; its updates wait until
// the bot knows its own name. Of several nodes one polls, and all take what comes to the webhook.
func (c *Channel) Run(ctx context.Context, accept channels.AcceptFunc) error {
	if c.access.Nobody() {
		c.log.Warn("access list empty: write to the bot and copy the id from this log into allow")
	}
	c.health.is(bots.Connecting, "") // whatever the last process left
	if c.node == nil {
		defer c.health.report()()
	}
	g, running := errgroup.WithContext(ctx)
	me := &self{id: c.botID, known: make(chan struct{}), commands: []string{"start"}}
	for _, command := range c.commands {
		me.commands = append(me.commands, command.Name)
	}
	defer c.helpers.Wait()
	defer c.previews.Open()()
	g.Go(func() error { return c.introduce(running, me) })
	g.Go(func() error { return c.guardToken(running) })
	g.Go(func() error { return c.access.TellStrangers(running) })
	g.Go(func() error { return c.standBy(running) })
	if c.webhook.url != "" {
		defer c.openIntake(running, me, accept)()
	}
	g.Go(func() error { return c.fetchUpdates(running, me, accept) })
	err := g.Wait()
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// offset returns the id of the first update that was not accepted yet, 0 when
// none ever was. It retries while the store fails, and returns an error only when
// ctx ends.
func (c *Channel) offset(ctx context.Context) (int64, error) {
	var value string
	err := retry.Persist(ctx, c.log, "read how far Telegram was read", func() (err error) {
		value, err = c.cursor(ctx, c.cursorName())
		return err
	})
	if conversation.IsDamaged(err) {
		return 0, nil // Telegram knows how far it was read
	}
	if err != nil || value == "" {
		return 0, err
	}
	offset, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		c.log.Warn("stored cursor invalid, reading all pending updates", "cursor", value)
		return 0, nil
	}
	return offset, nil
}

// cursorName returns a name such as "telegram:7000001".
func (c *Channel) cursorName() string { return c.account.String() }

// self is the bot's own account.
type self struct {
	id       int64
	known    chan struct{} // closed when username is set
	username string
	readsAll bool // the bot gets all messages of groups: its privacy mode is off
	commands []string
}

// introduce asks Telegram for the bot's name, and sets its commands.
func (c *Channel) introduce(ctx context.Context, me *self) error {
	retry := channels.NewRetry(c.log)
	for {
		var user tgbotapi.User
		err := c.api.call(ctx, requestTimeout, "getMe", nil, &user)
		if err == nil {
			retry.Succeeded("Telegram answers again")
			me.username, me.readsAll = user.UserName, user.CanReadAllGroupMessages
			close(me.known)
			if !user.CanReadAllGroupMessages && (c.talk.Most > 0 || len(c.free) > 0) {
				c.log.Warn("privacy mode hides group messages; turn it off at @BotFather (/setprivacy) and add the bot to each group again")
			}
			c.answered()
			c.log.Info("Telegram bot identified", "bot", "@"+user.UserName, "bot_id", c.botID)
			c.setCommands(ctx)
			return nil
		}
		if err := c.waitAfter(ctx, retry, err); err != nil {
			return err
		}
	}
}

// waitAfter waits before a call that failed is made again: where the token was
// rejected, until Telegram takes it. It returns an error when ctx ends.
func (c *Channel) waitAfter(ctx context.Context, retry *channels.Retry, err error) error {
	if isRejection(err) {
		return c.untilTaken(ctx, err)
	}
	trouble, atLeast := troubleOf(err)
	return retry.Wait(ctx, trouble, err, atLeast)
}

func (c *Channel) setCommands(ctx context.Context) {
	err := c.api.call(ctx, requestTimeout, "setMyCommands", tgbotapi.Params{"commands": c.menu(false)}, nil)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("command menu not set", "error", err)
	}
	c.setGroupCommands(ctx)
}

// menu returns the list of commands as JSON; in that of groups, nobody else sees the
// private ones.
func (c *Channel) menu(ofGroups bool) string {
	type botCommand struct {
		Command     string `json:"command"`
		Description string `json:"description"`
		Ephemeral   bool   `json:"is_ephemeral,omitempty"`
	}
	list := make([]botCommand, 0, len(c.commands))
	for _, command := range c.commands {
		list = append(list, botCommand{command.Name, command.Description, ofGroups && command.Private})
	}
	return mustJSON(list)
}

// poll accepts batch after batch until ctx ends, or with cluster.ErrLost when another node may poll.
func (c *Channel) poll(ctx context.Context, role *cluster.Role, me *self, accept channels.AcceptFunc) error {
	offset, err := c.offset(ctx)
	if err != nil {
		return err
	}
	retry := channels.NewRetry(c.log)
	next := reading{offset: offset, limit: maxBatch}
	for {
		began := time.Now()
		batch, err := c.getUpdates(ctx, next)
		if !role.IsHeld() { // also before the next poll: a process that was paused may not know yet that its time is over
			return cluster.ErrLost
		}
		if err == nil && len(batch) > 0 {
			err = c.take(ctx, me, &next, batch, accept)
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, cluster.ErrLost) {
				return err
			}
			if !isRejection(err) {
				c.health.down(err)
			}
			if isWebhookConflict(err) && c.leaveWebhook(ctx) {
				continue
			}
			if isConflict(err) {
				if err := c.checkRole(ctx, role); err != nil {
					return err
				}
			}
			if err := c.waitAfter(ctx, retry, err); err != nil {
				return err
			}
			if err := c.narrow(ctx, &next, err, accept); err != nil {
				return err
			}
			continue
		}
		c.answered()
		retry.Succeeded("updates received again")
		next.widen()
		if len(batch) == 0 && time.Since(began) < time.Second && clock.Sleep(ctx, pollPause) != nil {
			return ctx.Err()
		}
	}
}

func (c *Channel) getUpdates(ctx context.Context, next reading) ([]json.RawMessage, error) {
	params := tgbotapi.Params{
		"timeout":         strconv.Itoa(int(pollTimeout / time.Second)),
		"limit":           strconv.Itoa(next.limit),
		"allowed_updates": allowedUpdates,
	}
	params.AddNonZero64("offset", next.offset)
	var batch []json.RawMessage
	err := c.api.call(ctx, pollTimeout+pollMargin, "getUpdates", params, &batch)
	return batch, err
}

// errNoIDs is the error of a batch in which no update has an id. No offset can confirm such a batch,
// so Telegram delivers it again until an update with an id follows.
var errNoIDs = errors.New("getUpdates: no update of the batch has an update_id")

// take waits until the bot knows its name. It then accepts the messages of a batch together with the
// offset behind the newest update id. Messages of updates without an id are accepted, too. The error
// is errNoIDs, cluster.ErrLost, or the end of ctx.
func (c *Channel) take(ctx context.Context, me *self, next *reading, batch []json.RawMessage, accept channels.AcceptFunc) error {
	select {
	case <-me.known:
	case <-ctx.Done():
		return ctx.Err()
	}
	var inbounds []conversation.Inbound
	last := int64(0)
	for _, raw := range batch {
		u := c.decode(raw)
		last = max(last, u.ID)
		if u.Edited != nil && len(inbounds) > 0 { // the message may be among them
			if err := c.store(ctx, nil, inbounds, accept); err != nil {
				return err
			}
			inbounds = nil
		}
		list, err := c.handle(ctx, me, u)
		if err != nil {
			return err
		}
		inbounds = append(inbounds, list...)
	}
	if last > 0 {
		return c.advance(ctx, next, last+1, inbounds, accept)
	}
	next.limit = maxBatch // a larger batch more probably has an update with an id
	if err := c.store(ctx, nil, inbounds, accept); err != nil {
		return err
	}
	return errNoIDs
}

// handle does what an update asks for, and returns what is to be accepted. The error
// is the end of ctx.
func (c *Channel) handle(ctx context.Context, me *self, u update) ([]conversation.Inbound, error) {
	switch {
	case u.Edited != nil:
		return c.edited(ctx, me, u)
	case u.Callback != nil:
		return c.pressed(ctx, me, u)
	case u.Stopped != nil:
		return c.stopPressed(ctx, me, u)
	case u.Member != nil:
		return nil, c.joined(ctx, me, u)
	}
	return c.read(ctx, me, u)
}

// advance accepts messages together with the offset after them, where the next
// poll begins.
func (c *Channel) advance(ctx context.Context, next *reading, behind int64, inbounds []conversation.Inbound, accept channels.AcceptFunc) error {
	err := c.store(ctx, []conversation.Cursor{{Name: c.cursorName(), Value: strconv.FormatInt(behind, 10)}}, inbounds, accept)
	if err == nil {
		next.offset = behind
	}
	return err
}

// store accepts messages and cursors. It retries while the store fails, and
// returns an error only when ctx ends, or cluster.ErrLost when another node may poll.
func (c *Channel) store(ctx context.Context, cursors []conversation.Cursor, inbounds []conversation.Inbound, accept channels.AcceptFunc) error {
	retry := channels.NewRetry(c.log)
	for {
		err := accept(ctx, cursors, inbounds...)
		if err == nil {
			retry.Succeeded("messages stored again")
			return nil
		}
		if errors.Is(err, cluster.ErrLost) {
			return err
		}
		if err := retry.Wait(ctx, channels.Trouble{Name: "store", Level: slog.LevelError, Text: "messages not stored, trying again; Telegram keeps them"}, err, 0); err != nil {
			return err
		}
	}
}

const (
	maxBatch    = 100 // the most that https://core.telegram.org/bots/api#getupdates gives at once
	brokenTries = 3   // how often an update must arrive broken before it is skipped, since a proxy may break one once
)

// reading is the offset and the size of the next poll. An update with broken JSON makes its whole
// batch unreadable. Updates are then read one by one until the broken one is found, and in growing
// batches afterwards.
type reading struct {
	offset int64 // ID of the first update that was not accepted yet
	limit  int   // most updates to read at once
	broken int   // how often the update at offset could not be read by itself
}

// widen asks for more updates after a poll that could be read.
func (r *reading) widen() {
	r.limit, r.broken = min(2*r.limit, maxBatch), 0
}

// narrow asks for fewer updates after a poll that failed. When a broken update is
// the reason, it gets closer to that one, and at last skips it.
func (c *Channel) narrow(ctx context.Context, next *reading, failure error, accept channels.AcceptFunc) error {
	var garbled *garbledError
	if !errors.As(failure, &garbled) {
		return nil
	}
	id := garbled.updateID()
	if id == 0 || id < next.offset {
		return nil
	}
	if next.limit > 1 {
		next.limit = 1
		return nil
	}
	if next.broken++; next.broken < brokenTries {
		return nil
	}
	c.log.Error("update not readable, skipping it", "update_id", id, "error", garbled)
	next.limit, next.broken = maxBatch, 0
	return c.advance(ctx, next, id+1, nil, accept)
}
