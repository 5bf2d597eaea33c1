package agentloop

import (
	"context"
	"slices"

	"parley/agentloop/command"
	"parley/conversation"
)

// Where the database is damaged, people are told what happened and how to go on.

const unstorable = "⚠️ The database of this gateway is damaged, and nothing can be stored here. Its operator has been told."

// damagedRun returns the failed run for messages to a conversation that can't be
// read. They are stored unless the conversation's record is damaged, too.
func (l *loop) damagedRun(snapshot conversation.Snapshot, took []conversation.Inbound) conversation.Run {
	run := l.newRun(snapshot, slices.Concat(took, snapshot.Notes), l.deps.Store.Now())
	run.Status, run.Error = conversation.StatusFailed, "the conversation is damaged"
	if snapshot.Conversation.Messages > 0 {
		run.Messages = l.router.userMessages(took)
	}
	run.Replies = l.reply(took, command.Unreadable)
	return run
}

// commitWithout stores a run that met damage, without its messages and effect, and
// with a reply that says so. It returns false when that can't be stored either: what
// the run took then waits until somebody writes again, or for the next start.
func (l *loop) commitWithout(runs context.Context, run conversation.Run) bool {
	l.cache.invalidate()
	bare := conversation.Run{
		Key: run.Key, Kind: run.Kind, Status: conversation.StatusFailed, Took: run.Took, Journal: run.Journal, StartedAt: run.StartedAt,
		Conversation: run.Conversation, Error: "not stored: the database is damaged",
	}
	words := command.Unreadable
	if run.Effect.Archive {
		words = unstorable
	}
	took := run.Took[:1]
	if run.Kind == conversation.KindAgent {
		took = run.Took
	}
	bare.Replies = l.reply(took, words)
	var done conversation.Committed
	err := l.persist(runs, "store that a run can't be stored", func() (err error) {
		done, err = l.deps.Store.Commit(runs, bare)
		if conversation.IsDamaged(err) {
			bare.Conversation = bare.Conversation.WithoutRecord()
			done, err = l.deps.Store.Commit(runs, bare)
		}
		return err
	})
	if err != nil {
		return false
	}
	l.deps.Watcher.Committed(bare, done)
	if len(done.Replies) > 0 {
		l.deps.Deliver(done.Replies)
	}
	return true
}
