package discord

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
	"parley/conversation"
)

// chaosFor is how long the connections are broken again and again:
// go test ./channels/discord -run BadConnection -chaos 1m
var chaosFor = flag.Duration("chaos", 15*time.Second, "how long the test of a bad connection lasts")

// chaosGateways is how many gateways are tested side by side, each with a
// Discord of its own: most of the time they wait to connect again.
const chaosGateways = 4

// maxBehind is the number of messages that a speaker is ahead of the gateway before the speaker waits, so
// that a slow machine has little left to do in the end. It exceeds a page of Discord and a batch of the
// adapter.
const maxBehind = 300

// speaker writes numbered messages in one place.
type speaker struct {
	place discordtest.Channel
	who   discordtest.User
	key   conversation.Key
	said  []string
	heard []string // messages that the gateway accepted
	known int      // how many accepted messages were looked at
}

func (k *speaker) say(s *discordtest.Server) {
	text := fmt.Sprint(k.who.Username, " ", len(k.said))
	k.said = append(k.said, text)
	if !k.place.IsThread() && k.place.Type == discordtest.TextChannel {
		text = discordtest.Bot.Mention() + " " + text
	}
	s.Say(k.place, k.who, text)
}

// behind returns the number of the speaker's messages that the gateway has not accepted yet.
func (k *speaker) behind(accepted []conversation.Inbound) int {
	for _, in := range accepted[k.known:] {
		if in.Key == k.key {
			k.heard = append(k.heard, in.Text)
		}
	}
	k.known = len(accepted)
	return len(k.said) - len(k.heard)
}

// speakers returns people who write in DMs, channels and threads.
func (g *gateway) speakers() []*speaker {
	general := g.srv.Guild("Home")
	var list []*speaker
	for i := range 2 {
		who := g.srv.Person(fmt.Sprint("p", i))
		dm, channel := g.srv.DM(who), g.srv.Channel(general, fmt.Sprint("c", i))
		thread := g.srv.Thread(channel, discordtest.Bot, fmt.Sprint("t", i))
		list = append(list, &speaker{place: dm, who: who, key: dmKey(who.ID)},
			&speaker{place: channel, who: who, key: channelKey(channel.ID)}, &speaker{place: thread, who: who, key: threadKey(thread.ID)})
	}
	return list
}

func TestBadConnectionLosesAndDoublesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it takes half a minute")
	}
	t.Parallel()
	all := map[*gateway][]*speaker{}
	for range chaosGateways {
		g := newGateway(t)
		g.tune = func(c *Channel) { c.openTime = 5 * time.Second }
		all[g] = g.speakers()
		g.run()
		for _, k := range all[g] {
			k.say(g.srv)
		}
		g.wait(len(all[g]))
	}
	var broken sync.WaitGroup
	for g, speakers := range all {
		broken.Go(func() { g.speakWhileBroken(speakers) })
	}
	broken.Wait()
	for g, speakers := range all {
		for _, k := range speakers {
			g.awaits(func() bool { return k.behind(g.accepted) <= 0 })
			if diff := cmp.Diff(k.said, k.heard); diff != "" {
				t.Errorf("%s:\n%s", k.key, diff)
			}
		}
		n := g.srv.Counts()
		t.Logf("%d messages; %d sessions begun, %d times resumed, %d times refused", len(g.inbounds()), n.Identifies, n.Resumes, n.Rejected)
	}
}

// speakWhileBroken has everybody write while the connection is broken repeatedly.
func (g *gateway) speakWhileBroken(speakers []*speaker) {
	end := time.Now().Add(*chaosFor)
	var talking sync.WaitGroup
	for _, k := range speakers {
		talking.Go(func() {
			for time.Now().Before(end) && g.awaits(func() bool { return k.behind(g.accepted) < maxBehind }) {
				k.say(g.srv)
				time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			}
		})
	}
	for time.Now().Before(end) {
		breakConnection(g.srv)
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
	}
	talking.Wait()
}

func breakConnection(s *discordtest.Server) {
	switch rand.IntN(7) {
	case 0:
		s.InvalidateSessions(false)
	case 1:
		s.InvalidateSessions(true)
	case 2:
		s.AskReconnect()
	case 3:
		s.ForgetSessions()
		s.DropConnections()
	case 4:
		s.CloseConnections(discordtest.UnknownError)
	case 5:
		s.SpeakNext(discordtest.Reconnect)
		s.DropConnections()
	default:
		s.DropConnections()
	}
}
