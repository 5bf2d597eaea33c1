package agentloop

import (
	"context"
	"fmt"
	"time"

	"parley/conversation"
)

// awaitTurn waits until a person may have the next answer, and returns true if that is now. After
// a wait it returns false, and the loop must look again: the messages stay in the store
// meanwhile, and those that follow are answered with them.
func (l *loop) awaitTurn(intake context.Context, first conversation.Inbound) bool {
	paces := l.deps.Budgets.Paces
	if paces == nil || l.unfinished.took(first) {
		return true
	}
	person, unlimited := l.deps.Budgets.person(first.Channel(), first.Sender)
	if person == "" || unlimited {
		return true
	}
	var wait time.Duration
	err := l.persist(intake, "count an answer", func() (err error) {
		wait, err = paces.Take(intake, person, first.ID)
		return err
	})
	if err != nil {
		return conversation.IsDamaged(err) // nobody goes without an answer because they can't be counted
	}
	if wait == 0 {
		return true
	}
	if l.toldToWait != first.ID {
		l.toldToWait = first.ID
		l.deps.Log.Info("message waits for its turn", "session", l.key, "person", person, "wait", wait)
	}
	waiting, end := context.WithCancel(intake)
	defer end()
	if l.deps.OfPrograms == nil || !l.deps.OfPrograms(l.key) {
		l.deps.Watcher.Working(waiting, l.key, []conversation.Inbound{first}, first.Destination()) // pages show previews of work alone
		l.deps.Watcher.Waiting(l.key, first.Destination(), turnWait(paces.PerMinute(), wait))
	}
	l.awaitMail(intake, wait)
	return false
}

// turnWait returns what tells a chat how long its answer waits.
func turnWait(perMinute int, wait time.Duration) Wait {
	answers := "1 answer"
	if perMinute > 1 {
		answers = fmt.Sprintf("%d answers", perMinute)
	}
	untimed := fmt.Sprintf("⏳ You get %s in a minute. Yours comes", answers)
	return Wait{Words: fmt.Sprintf("%s in %d s.", untimed, int(wait.Seconds()+0.999)), Untimed: untimed, For: wait}
}
