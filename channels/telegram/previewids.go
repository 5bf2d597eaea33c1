package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"parley/conversation"
)

// The ids of previews are stored as cursors. A process that is alone reads them once, and stores those of all
// places together. Where several nodes send for the bot, each place has a cursor of its own, which also names the
// place's draft: the press of its button may arrive at any node.

// storedMessage returns the id of the message that shows the preview in a place, 0 for none.
func (ps *previews) storedMessage(ctx context.Context, at address) (int64, error) {
	if ps.channel.node != nil {
		value, err := ps.storedFor(ctx, at)
		id, _ := strconv.ParseInt(value, 10, 64) // a draft is no message
		return id, err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	err := ps.load(ctx)
	return ps.stored[string(at.key())], err
}

// storeMessage stores the id of the message that shows the preview in a place; 0 says that
// there is none any more.
func (ps *previews) storeMessage(ctx context.Context, at address, id int64) error {
	if ps.channel.node != nil {
		value := ""
		if id != 0 {
			value = strconv.FormatInt(id, 10)
		}
		return ps.storeFor(ctx, at, value)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err := ps.load(ctx); err != nil {
		return err
	}
	key := string(at.key())
	if ps.stored[key] == id {
		return nil
	}
	ps.stored[key] = id
	if id == 0 {
		delete(ps.stored, key)
	}
	return ps.channel.messages.SetCursor(ctx, conversation.Cursor{Name: ps.name(), Value: mustJSON(ps.stored)})
}

// load reads the stored ids, once. The caller holds mu.
func (ps *previews) load(ctx context.Context) error {
	if ps.stored != nil {
		return nil
	}
	value, err := ps.channel.cursor(ctx, ps.name())
	if err != nil && !conversation.IsDamaged(err) {
		return fmt.Errorf("previews: %w", err)
	}
	ps.stored = map[string]int64{}
	if value != "" && json.Unmarshal([]byte(value), &ps.stored) != nil {
		ps.stored = map[string]int64{}
	}
	return nil
}

// storedFor returns the value that storeFor has stored for a place. It is used where several nodes share the bot.
func (ps *previews) storedFor(ctx context.Context, at address) (string, error) {
	value, err := ps.channel.cursor(ctx, ps.nameFor(at))
	if err != nil && !conversation.IsDamaged(err) {
		return "", fmt.Errorf("preview: %w", err)
	}
	return value, nil
}

// storeFor stores the id of a place's message or draft, "" for none.
func (ps *previews) storeFor(ctx context.Context, at address, value string) error {
	return ps.channel.messages.SetCursor(ctx, conversation.Cursor{Name: ps.nameFor(at), Value: value})
}

// noteDraft stores the draft of a place.
func (ps *previews) noteDraft(ctx context.Context, at address, id int64) error {
	if ps.channel.node == nil {
		return nil
	}
	return ps.storeFor(ctx, at, draftMark+strconv.FormatInt(id, 10))
}

// forgetDraft stores that a place has no draft any more.
func (ps *previews) forgetDraft(ctx context.Context, at address) error {
	if ps.channel.node == nil {
		return nil
	}
	return ps.storeFor(ctx, at, "")
}

// showsDraft reports whether a draft is the one that a place shows now, at this or another node.
func (ps *previews) showsDraft(ctx context.Context, at address, id int64) (bool, error) {
	if ps.channel.node == nil || ps.channel.drafts.is(at, id) {
		return ps.channel.drafts.is(at, id), nil
	}
	value, err := ps.storedFor(ctx, at)
	return id != 0 && value == draftMark+strconv.FormatInt(id, 10), err
}

func (ps *previews) nameFor(at address) string { return ps.name() + ":" + string(at.key()) }

func (ps *previews) name() string { return ps.channel.cursorName() + ":previews" }
