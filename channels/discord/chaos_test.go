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

// maxUnheard is how many messages of a talk wait for the gateway before people
// wait too, so that a slow machine has little left to do in the end. It is more
// than a page of Discord's and a batch of the adapter's.
const maxUnheard = 300

// talk is somebody who says numbered messages in one place.
type talk struct {
	place discordtest.Channel
	who   discordtest.User
	key   conversation.Key
	said  []string
	heard []string // by the gateway
	known int      // of what the gateway has accepted
}

func (k *talk) say(s *discordtest.Server) {
	text := fmt.Sprint(k.who.Username, " ", len(k.said))
	k.said = append(k.said, text)
	if !k.place.IsThread() && k.place.Type == discordtest.TextChannel {
		text = discordtest.Bot.Mention() + " " + text
	}
	s.Say(k.place, k.who, text)
}

// unheard is how many messages the gateway, which has accepted so many, has
// still to hear.
func (k *talk) unheard(accepted []conversation.Inbound) int {
	for _, in := range accepted[k.known:] {
		if in.Key == k.key {
			k.heard = append(k.heard, in.Text)
		}
	}
	k.known = len(accepted)
	return len(k.said) - len(k.heard)
}

// talks are people in DMs, channels and threads.
func (g *gateway) talks() []*talk {
	general := g.srv.Guild("Home")
	var list []*talk
	for i := range 2 {
		who := g.srv.Person(fmt.Sprint("p", i))
		dm, channel := g.srv.DM(who), g.srv.Channel(general, fmt.Sprint("c", i))
		thread := g.srv.Thread(channel, discordtest.Bot, fmt.Sprint("t", i))
		list = append(list, &talk{place: dm, who: who, key: dmKey(who.ID)},
			&talk{place: channel, who: who, key: channelKey(channel.ID)}, &talk{place: thread, who: who, key: threadKey(thread.ID)})
	}
	return list
}

func TestABadConnectionLosesAndDoublesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it takes half a minute")
	}
	t.Parallel()
	all := map[*gateway][]*talk{}
	for range chaosGateways {
		g := newGateway(t)
		g.tune = func(c *Channel) { c.openTime = 5 * time.Second }
		all[g] = g.talks()
		g.run()
		for _, k := range all[g] {
			k.say(g.srv)
		}
		g.wait(len(all[g]))
	}
	var broken sync.WaitGroup
	for g, talks := range all {
		broken.Go(func() { g.talkWhileBroken(talks) })
	}
	broken.Wait()
	for g, talks := range all {
		for _, k := range talks {
			g.awaits(func() bool { return k.unheard(g.accepted) <= 0 })
			if diff := cmp.Diff(k.said, k.heard); diff != "" {
				t.Errorf("%s:\n%s", k.key, diff)
			}
		}
		n := g.srv.Counts()
		t.Logf("%d messages; %d sessions begun, %d times resumed, %d times refused", len(g.inbounds()), n.Identifies, n.Resumes, n.Rejected)
	}
}

// talkWhileBroken lets everybody talk while the connection is broken again and
// again.
func (g *gateway) talkWhileBroken(talks []*talk) {
	end := time.Now().Add(*chaosFor)
	var talking sync.WaitGroup
	for _, k := range talks {
		talking.Go(func() {
			for time.Now().Before(end) && g.awaits(func() bool { return k.unheard(g.accepted) < maxUnheard }) {
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
