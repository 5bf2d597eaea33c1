package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/plaintext"
)

const (
	titleTurns   = 3    // turns after which the first line stays the title
	titleExcerpt = 1000 // runes of each message that the model reads
	titleRunes   = 60   // the most that a title of the model has
	titleTimeout = time.Minute
)

const titlePrompt = "Name the conversation that follows, in two to six words, in the language in which it is held. " +
	"Answer with the name alone, without quotes and without a full stop."

// requestTitle has the model make a title in the background for a conversation whose
// title is still its first line. One that a person or a place has named keeps its
// title.
func (l *loop) requestTitle(run conversation.Run, done conversation.Committed) {
	if !l.deps.Config.Titles || l.deps.OfPrograms != nil && l.deps.OfPrograms(l.key) || !l.cache.valid || run.Kind != conversation.KindAgent || run.Status != conversation.StatusDone {
		return
	}
	history, c := l.cache.snapshot.History, done.Conversation
	if l.cache.snapshot.Older > 0 || c.State.Turns > titleTurns || c.Title == "" || c.Title != titleOf(nil, history) {
		return
	}
	key, to, excerpt, record := l.key, run.Took[0].Destination(), excerptOf(history), l.backgroundOf(run, done.Conversation.ID)
	model := l.router.setups.of(run.Conversation, run.Took[0]).model
	l.router.background.submit(func(ctx context.Context) {
		if err := l.router.makeTitle(ctx, key, c, to, model, record, excerpt); err != nil && ctx.Err() == nil {
			l.deps.Log.Log(ctx, l.router.backgroundLevel(model), "title failed; the first line stays", "session", key, "error", err)
		}
	})
}

// makeTitle makes and stores a title. It runs in the background; the loop may have
// ended.
func (r *Router) makeTitle(ctx context.Context, key conversation.Key, c conversation.Conversation, to conversation.Destination, model *NamedModel, record usage.Background, excerpt string) error {
	answer, err := r.askInBackground(ctx, key, model, record, sideCall{steps.PurposeTitle, titleTimeout, titlePrompt, excerpt})
	if err != nil {
		return err
	}
	title := madeTitle(answer.Text)
	if title == "" || answer.IsCut() {
		return errors.New("the model gave no title")
	}
	_, err = r.deps.Store.Rename(ctx, conversation.Renaming{Key: key, ID: c.ID, Title: title, Instead: &c.Title})
	if errors.Is(err, conversation.ErrNotFound) { // somebody has named it meanwhile, or deleted it
		return nil
	}
	if err != nil {
		return err
	}
	r.Edited(key)
	r.deps.Watcher.Titled(key, to, title)
	return nil
}

// madeTitle returns the first line of the model's answer without quotes and marks.
func madeTitle(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.Trim(plaintext.ShortLine(line, titleRunes), "\"'“”„«»‘’*_#`. \t"); line != "" {
			return line
		}
	}
	return ""
}

// excerptOf returns the beginning of a conversation, which the model reads to name
// it.
func excerptOf(history []conversation.Message) string {
	var b strings.Builder
	for _, m := range history {
		if m.Content == "" || m.Role == conversation.RoleTool || m.State == conversation.LeftOut {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n\n", m.Role, window.Excerpt(m.Content, titleExcerpt))
		if m.Role == conversation.RoleAssistant {
			break
		}
	}
	return b.String()
}
