package window

import (
	"math"
	"slices"

	"parley/conversation"
	"parley/conversation/state"
	"parley/llm"
)

// The window begins at the same message in call after call, so that each call repeats
// the one before and the model's server need not read it again. When a call would
// exceed the budget, the window advances by many turns at once, and then stays again.
const (
	// low is how full a window is when it has advanced, as a part of the budget. A lower
	// one advances more rarely, and shows less: with 0.6, half a percent less of each call
	// repeats the one before at 8,000 tokens, and 0.4 gains nothing more.
	low = 0.5
	// leastHistory is the part of the room beside the frame that turns may take when the
	// window has advanced, also where the frame alone takes nearly low.
	leastHistory = 1.0 / 3
	// narrow is the part of the room below which a window is far smaller than it could
	// be, as when the budget was raised, or after /undo. It then begins further back. It
	// is half of leastHistory, so that no window is narrow because it has advanced.
	narrow = leastHistory / 2
	// prepareAt is how full a window is, as a part of the budget, when a summary of what
	// will fall out is made.
	prepareAt = 0.8
)

// advance returns the list when it begins at the first turn that leaves low of the
// budget, or at an earlier one where fewer messages than keepRecent would be shown. If
// not even the newest turn fits, its messages are cut.
func (w Window) advance(budget, below int) List {
	system, fixed := w.fitSystem(budget, below)
	_, _, most := w.fitNote(budget-fixed, w.notes.lasting, w.counter.Text)
	room := budget - fixed - most
	_, now := w.picturesFrom(math.MaxInt64)
	current, cramped := w.fit(namePictures(w.current, max(now-w.pictures, 0)), room)
	for _, e := range current {
		room -= e.Tokens
	}
	place := w.choose(budget, room, lowRoom(budget, fixed)-(budget-room-fixed))
	place.Named = w.toName(place.Start)
	shown, taken := w.from(place)
	told, text, note := state.Told{}, "", 0
	if most > 0 {
		told, text, note = w.fitNote(budget-fixed, w.untold(place), w.counter.Text)
	}
	l := w.list(place, system, shown, current, text)
	l.Note, l.Cramped = told, cramped
	l.Tokens = budget - room + taken - most + note
	l.Advanced = w.place.Start > 0
	return l
}

// lowRoom returns how many tokens history, note and current turn may have when the
// window has advanced.
func lowRoom(budget, fixed int) int {
	return max(int(low*float64(budget))-fixed, int(leastHistory*float64(budget-fixed)))
}

// choose returns where the window begins so that the history takes at most wanted
// tokens. Up to room, it takes more to show keepRecent messages or at least a turn.
func (w Window) choose(budget, room, wanted int) conversation.Window {
	place := w.chosen(budget, w.older+1)
	first := w.firstFrom(w.place.Start)
	start, taken := len(w.history), 0
	for i := len(w.history) - 1; i >= first; i-- {
		if taken += w.cost(&w.history[i], place.Cut); taken > room {
			break
		}
		if taken > wanted && len(w.history)-start >= max(w.keepRecent, 1) {
			break
		}
		if i == first || w.history[i].StartsTurn(&w.history[i-1]) {
			start = i
		}
	}
	switch {
	case start < len(w.history):
		place.Start = w.history[start].Seq
	case start > first:
		return w.chooseInTurn(place, first, room, wanted)
	default:
		place.Start = max(w.place.Start, w.older+1, w.summary.Through+1)
	}
	return place
}

// chooseInTurn returns where the window begins when the newest turn, from index first or
// later, has more tokens than the room: the model knows at least a part of what was
// just said.
func (w Window) chooseInTurn(place conversation.Window, first, room, wanted int) conversation.Window {
	place.Start = w.history[len(w.history)-1].Seq + 1
	room = max(wanted, room/2)
	turn := LastTurn(w.history[first:])
	if room < minCut {
		return place
	}
	newest := make([]Entry, len(turn))
	for i := range turn {
		newest[i] = Entry{Message: llm.Message{Role: string(turn[i].Role)}, Tokens: turn[i].Tokens}
	}
	at := firstToKeep(newest, room, false)
	if at == len(turn) {
		return place
	}
	place.Start, place.Cut = turn[at].Seq, max(min(level(newest[at:], room), place.Cut), minCut)
	for i := at; i < len(turn); i++ { // a message with many calls can't be cut as far as that
		room -= w.cost(&turn[i], place.Cut)
	}
	if room < 0 {
		place.Start = turn[len(turn)-1].Seq + 1
	}
	return place
}

// IsNarrow reports whether a window has become far smaller than the budget, so that it
// should begin further back.
func (w Window) IsNarrow(budget int) bool {
	if w.place.Start <= 1 || w.place.Start <= w.summary.Through+1 {
		return false
	}
	taken := 0
	for _, m := range w.history[w.firstFrom(w.place.Start):] {
		taken += min(m.Tokens, w.place.Cut)
	}
	return float64(taken) < narrow*float64(budget-w.fixed)
}

// Prepare returns the seq before which the conversation should be summarised by now, so
// that the summary is ready when the window advances; 0 when it is too early.
func (w Window) Prepare(budget int) int64 {
	used := w.fixed + w.counter.Text(w.below())
	for _, m := range w.history[w.firstFrom(w.place.Start):] {
		used += min(m.Tokens, max(w.place.Cut, minCut))
	}
	if w.place.Start == 0 || float64(used) < prepareAt*float64(budget) {
		return 0
	}
	fixed := w.fixed + w.counter.Text(w.below())
	room := budget - fixed
	wanted := lowRoom(budget, fixed) - max(budget-used, 0) // by which it grows until it advances
	place := w.choose(budget, room, max(wanted, 0))
	return min(place.Start, w.LastTurn())
}

// LastTurn returns the seq of the first message of the newest turn of the history, 0 for
// none.
func (w Window) LastTurn() int64 {
	if last := LastTurn(w.history); len(last) > 0 {
		return last[0].Seq
	}
	return 0
}

// Uncovered returns the part of a history that a summary does not cover.
func Uncovered(history []conversation.Message, s conversation.Summary) []conversation.Message {
	i := slices.IndexFunc(history, func(m conversation.Message) bool { return m.Seq > s.Through })
	if i < 0 {
		return nil
	}
	return history[i:]
}
