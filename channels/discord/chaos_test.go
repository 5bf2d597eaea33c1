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

// chaosFor is how long the connection is broken again and again:
// go test ./channels/discord -run BadConnection -chaos 4s
var chaosFor = flag.Duration("chaos", time.Minute, "how long the test of a bad connection lasts")

// talk is somebody who says numbered messages in one place.
type talk struct {
	place discordtest.Channel
	who   discordtest.User
	key   conversation.Key
	said  []string
}

func (k *talk) say(s *discordtest.Server) {
	text := fmt.Sprint(k.who.Username, " ", len(k.said))
	k.said = append(k.said, text)
	if !k.place.IsThread() && k.place.Type == discordtest.TextChannel {
		text = discordtest.Bot.Mention() + " " + text
	}
	s.Say(k.place, k.who, text)
}

// talks are people in DMs, channels and threads.
func (g *gateway) talks() []*talk {
	general := g.srv.Guild("Home")
	var list []*talk
	for i := range 4 {
		who := g.srv.Person(fmt.Sprint("p", i))
		dm, channel := g.srv.DM(who), g.srv.Channel(general, fmt.Sprint("c", i))
		thread := g.srv.Thread(channel, discordtest.Bot, fmt.Sprint("t", i))
		list = append(list, &talk{place: dm, who: who, key: dmKey(who.ID)},
			&talk{place: channel, who: who, key: channelKey(channel.ID)}, &talk{place: thread, who: who, key: threadKey(thread.ID)})
	}
	return list
}

func TestABadConnectionLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	talks := g.talks()
	g.run()
	for _, k := range talks {
		k.say(g.srv)
	}
	g.wait(len(talks))

	end := time.Now().Add(*chaosFor)
	var talking sync.WaitGroup
	for _, k := range talks {
		talking.Go(func() {
			for time.Now().Before(end) {
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

	total := 0
	for _, k := range talks {
		total += len(k.said)
	}
	g.until("every message", func() bool { return len(g.accepted) >= total })
	heard := map[conversation.Key][]string{}
	for _, in := range g.wait(total) {
		heard[in.Key] = append(heard[in.Key], in.Text)
	}
	for _, k := range talks {
		if diff := cmp.Diff(k.said, heard[k.key]); diff != "" {
			t.Errorf("%s:\n%s", k.key, diff)
		}
	}
}

func breakConnection(s *discordtest.Server) {
	switch rand.IntN(6) {
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
	default:
		s.DropConnections()
	}
}
