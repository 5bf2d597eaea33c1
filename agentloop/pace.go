package agentloop

import (
	"context"
	"fmt"
	"time"

	"parley/conversation"
)

// awaitTurns returns those of the next messages whose turn has come. If it is none of them, it waits until one may
// have its turn and returns nothing, and the loop must look again: the messages stay in the store meanwhile. The messages of a
// person keep their order; those of others in a group do not wait for them.
func (l *loop) awaitTurns(intake context.Context, next []conversation.Inbound) (now []conversation.Inbound) {
	paces := l.deps.Budgets.Paces
	if paces == nil || len(next) == 0 || l.unfinished.took(next[0]) {
		return next
	}
	var people []string
	heads, held := map[string][]int64{}, map[int64]bool{} // of each person: messages that count, see continues
	head := make([]int64, len(next))
	last := map[string]conversation.Inbound{}
	for i, in := range next {
		person, unlimited := l.deps.Budgets.person(in.Channel(), in.Sender)
		if person == "" || unlimited {
			continue
		}
		if before, is := last[person]; is && continues(before, in) {
			head[i] = heads[person][len(heads[person])-1]
		} else {
			if !is {
				people = append(people, person)
			}
			head[i], held[in.ID] = in.ID, true
			heads[person] = append(heads[person], in.ID)
		}
		last[person] = in
	}
	soonest, who := time.Duration(0), ""
	for _, person := range people {
		var turns []int64
		var wait time.Duration
		err := l.persist(intake, "count messages", func() (err error) {
			turns, wait, err = paces.Take(intake, person, heads[person]...)
			return err
		})
		if err != nil && !conversation.IsDamaged(err) {
			return nil
		}
		if err != nil { // nobody goes without an answer because messages can't be counted
			turns = heads[person]
		}
		for _, id := range turns {
			delete(held, id)
		}
		if wait > 0 && (who == "" || wait < soonest) {
			soonest, who = wait, person
		}
	}
	for i, in := range next {
		if !held[head[i]] {
			now = append(now, in)
		}
	}
	if len(now) == 0 {
		l.awaitTurn(intake, next[0], who, soonest)
	}
	return now
}

// awaitTurn waits until a person may have a turn, which the chat of the first message that waits is told once.
func (l *loop) awaitTurn(intake context.Context, first conversation.Inbound, person string, wait time.Duration) {
	if l.toldToWait != first.ID {
		l.toldToWait = first.ID
		l.deps.Log.Info("message waits for its turn", "session", l.key, "person", person, "wait", wait)
	}
	waiting, end := context.WithCancel(intake)
	defer end()
	if l.deps.OfPrograms == nil || !l.deps.OfPrograms(l.key) {
		l.deps.Watcher.Working(waiting, l.key, []conversation.Inbound{first}, first.Destination()) // pages show previews of work alone
		l.deps.Watcher.Waiting(l.key, first.Destination(), turnWait(l.deps.Budgets.Paces.PerMinute(), wait))
	}
	l.awaitMail(intake, wait)
}

// turnWait returns what tells a chat how long its answer waits.
func turnWait(perMinute int, wait time.Duration) Wait {
	messages := "1 message"
	if perMinute > 1 {
		messages = fmt.Sprintf("%d messages", perMinute)
	}
	untimed := fmt.Sprintf("⏳ I answer %s of yours in a minute. The next answer comes", messages)
	return Wait{Words: fmt.Sprintf("%s in %d s.", untimed, int(wait.Seconds()+0.999)), Untimed: untimed, For: wait}
}
