package window

import (
	"fmt"
	"slices"

	"parley/conversation"
	"parley/conversation/media"
)

// MaxPictures is how many pictures a call shows at most, as far as the budget allows. The
// older ones of the window are named in the text.
//
// A picture stays as it was sent until the window advances, which it does where there are
// more: then about half of the pictures stay, so that the next ones have room.
const MaxPictures = 16

// picturesFrom returns how many pictures the history has in a window that begins at a seq,
// and how many the current turn has.
func (w Window) picturesFrom(start int64) (past, now int) {
	for i := w.firstFrom(start); i < len(w.history); i++ {
		past += len(w.history[i].Images)
	}
	for i := range w.current {
		now += len(w.current[i].shownPictures())
	}
	return past, now
}

// hasRoomForPictures reports whether a window that begins at place may show all pictures that
// are not named there.
func (w Window) hasRoomForPictures(place conversation.Window) bool {
	past, now := w.picturesFrom(place.Start)
	return w.pictures == 0 || past+now-place.Named <= w.pictures
}

// toName returns how many of the oldest pictures are named instead of shown, in a window that
// begins at start: none if all may be shown. Otherwise half of the allowed number stay shown, or all
// of the current turn, up to the allowed number.
func (w Window) toName(start int64) int {
	past, now := w.picturesFrom(start)
	if past+now <= w.pictures {
		return 0
	}
	return past + now - max(w.pictures/2, min(now, w.pictures))
}

// named returns how many pictures are named of the history in a window that begins at
// place, and of the current turn.
func (w Window) named(place conversation.Window) (inHistory, inTurn int) {
	past, now := w.picturesFrom(place.Start)
	if w.pictures == 0 { // the model does not see
		return past, now
	}
	return min(place.Named, past), min(max(place.Named-past, 0), now)
}

// NameMade returns an answer with its pictures named in its text: servers take none in
// answers.
func NameMade(m conversation.Message) conversation.Message {
	for _, picture := range m.Images {
		m.Content = JoinLines(m.Content, madeLine(picture))
	}
	m.Images = nil
	return m
}

// madeLine returns the line about a picture that the model has made.
func madeLine(p media.Image) string { return "[picture " + p.Name + ", made and shown to the user]" }

// withMadeNamed returns messages with the pictures of their answers named.
func withMadeNamed(history []conversation.Message) []conversation.Message {
	made := func(m conversation.Message) bool { return m.Role == conversation.RoleAssistant && len(m.Images) > 0 }
	if !slices.ContainsFunc(history, made) {
		return history
	}
	history = slices.Clone(history)
	for i := range history {
		if made(history[i]) {
			history[i] = NameMade(history[i])
		}
	}
	return history
}

// NamePictures returns a message with its first n pictures named in its text.
func NamePictures(m conversation.Message, n int) conversation.Message {
	for _, picture := range m.Images[:n] {
		m.Content = JoinLines(m.Content, PictureLine(picture))
	}
	m.Images = m.Images[n:]
	return m
}

// namePictures returns the turn with its first n pictures named.
func namePictures(turn []Entry, n int) []Entry {
	if n == 0 {
		return turn
	}
	named := make([]Entry, len(turn))
	for i, e := range turn {
		pictures := e.shownPictures()
		for _, picture := range pictures[:min(n, len(pictures))] {
			n--
			if !picture.Lost { // else it is named already
				e.Content, e.Images = JoinLines(e.Content, PictureLine(picture)), e.Images[1:]
			}
		}
		named[i] = e
	}
	return named
}

// shownPictures returns the pictures that an entry shows the model.
func (e Entry) shownPictures() []media.Image {
	if e.Role == string(conversation.RoleAssistant) {
		return nil
	}
	return e.pictures
}

// PictureLine returns the line about a picture that is not shown.
func PictureLine(p media.Image) string { return fmt.Sprintf("[image %s, not shown]", p.Name) }
