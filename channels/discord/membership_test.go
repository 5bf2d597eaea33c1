package discord

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/access"
	"parley/channels/discord/discordtest"
	"parley/conversation/bots"
	"parley/internal/clock"
)

func TestServersOfTheBotAreStored(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Guild("Home")
	club, gone := g.srv.Guild("Club"), g.srv.Guild("Gone")
	until := func(want ...string) {
		t.Helper()
		for ctx, got := deadline(t), []string(nil); !slices.Equal(got, want); {
			servers, err := bots.New(g.store).Groups(t.Context())
			must(t, err)
			got = nil
			for _, s := range servers {
				got = append(got, fmt.Sprintf("%s %s %v", s.Name, s.State, s.Lacks))
			}
			if clock.Sleep(ctx, 5*time.Millisecond) != nil {
				t.Fatalf("stored %q, want %q", got, want)
			}
		}
	}
	r := g.run()
	until("Club member []", "Gone member []", "Home member []")
	g.srv.RemoveBot(club)
	until("Gone member []", "Home member []", "Club removed []")
	must(t, r.stop())
	g.srv.RemoveBot(gone) // while the gateway does not run
	g.run()
	until("Home member []", "Club removed []", "Gone removed []")
}

// The bot introduces itself once in each server that it is added to, if somebody there has access and
// the bot may write.
func TestTheBotIntroducesItselfInNewServers(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann, cem := g.srv.Person("Ann"), g.srv.Person("Cem")
	g.cfg.Access, g.cfg.Allow = access.Allowlist, []string{ann.ID}
	g.srv.Guild("Old")
	r := g.run()
	_, strangers := g.srv.AddBot("Of a stranger", cem, 0)
	_, closed := g.srv.AddBot("Closed", ann, discordtest.SendMessages)
	_, open := g.srv.AddBot("Open", ann, 0)
	_, err := g.srv.WaitSent(deadline(t), 1)
	must(t, err)
	must(t, r.stop())
	r = g.run() // which is told of all servers again
	g.srv.Say(open, ann, discordtest.Bot.Mention()+" hello")
	g.wait(1)
	must(t, r.stop())
	if sent := g.srv.Sent(); len(sent) != 1 || sent[0].Channel != open.ID || !strings.Contains(sent[0].Content, "Mention me") {
		t.Errorf("sent %+v; strangers are in %s, closed is %s", sent, strangers.ID, closed.ID)
	}
}

func TestMissingPermissionsAreNamed(t *testing.T) {
	t.Parallel()
	in := &intake{me: user{ID: "9"}}
	g := guild{ID: "1", Members: []member{{User: &user{ID: "9"}, Roles: []string{"3"}}}, Roles: []role{{ID: "1", Permissions: "3072"}, {ID: "2", Permissions: "8"}, {ID: "3", Permissions: "32768"}}}
	want := []string{"Send Messages in Threads", "Create Public Threads", "Read Message History"}
	if diff := cmp.Diff(want, in.lacks(g)); diff != "" {
		t.Error(diff)
	}
	g.Members[0].Roles = []string{"2"} // Administrator
	if lacks := in.lacks(g); len(lacks) != 0 {
		t.Error(lacks)
	}
	if g.Members = nil; in.lacks(g) != nil {
		t.Error("permissions that Discord did not send are reported")
	}
}
