package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
)

// One person has a secret for each place: a thread, the channel that it hangs
// in, and a DM. Nothing that the model is sent for one place, and nothing that is
// answered there, holds the secret of another.
func TestAThreadItsParentAndADMKnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{platform: newDiscord})
	d := w.discord
	ann := d.Person("Ann")
	places := map[string]discordtest.Channel{
		"parentsecret": d.lobby,
		"threadsecret": d.Thread(d.lobby, discordtest.Bot, "Plans"),
		"dmsecret":     d.DM(ann),
	}
	p := w.startServing()
	say := func(place discordtest.Channel, text string) {
		before := len(d.SentTo(place))
		d.Say(place, ann, discordtest.Bot.Mention()+" "+text)
		w.await("an answer to "+text, func() bool {
			sent := d.SentTo(place)
			return len(sent) > before && !strings.Contains(sent[len(sent)-1].Content, previewMark)
		})
	}
	for round := range 3 {
		for secret, place := range places {
			say(place, fmt.Sprintf("keep %s for me, round %d", secret, round))
			say(place, "/history")
			say(place, "/search secret")
			say(place, "/state")
		}
	}
	p.stop()
	w.expectClean()

	secrets := func(text string) (found []string) {
		for secret := range places {
			if strings.Contains(text, secret) {
				found = append(found, secret)
			}
		}
		return found
	}
	for _, call := range w.model.Calls() {
		var list strings.Builder
		for _, m := range call.Messages {
			list.WriteString(m.Content)
		}
		if found := secrets(list.String()); len(found) > 1 {
			t.Errorf("the model was sent %s together", found)
		}
	}
	for secret, place := range places {
		for _, m := range d.SentTo(place) {
			if found := secrets(m.Content); slices.ContainsFunc(found, func(s string) bool { return s != secret }) {
				t.Errorf("the place of %s was told %q", secret, m.Content)
			}
		}
	}
}
