package discord

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/delivery"
	"parley/channels/discord/discordtest"
	"parley/conversation"
	"parley/conversation/media"
	"parley/internal/waittest"
)

// Each picture of an answer is a message with a file below the answer. For one that is too large for
// Discord, a text says so, and the next ones follow.
func TestPicturesFollowTheirAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.run()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" draw three cats")
	in := g.wait(1)[0]
	sent := g.sendAll(r, general, 4, g.commitPictures(in, "Here **they** are.", 300, 11<<20, 500))
	var got []string
	for _, m := range sent {
		got = append(got, m.Content)
		for _, f := range m.Files {
			got = append(got, fmt.Sprintf("%s %s, %d bytes", f.ContentType, f.Name, len(f.Data)))
		}
	}
	want := []string{"Here **they** are.", "", "image/png picture-1.png, 300 bytes", "⚠️ The picture `picture-2.png` (11.0 MiB) can't be sent here.", "", "image/png picture-3.png, 500 bytes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// sendAll sends replies as the gateway does, waits for n messages of the bot in their place, and returns them.
func (g *gateway) sendAll(r running, place discordtest.Channel, n int, replies []conversation.Delivery) []discordtest.Message {
	g.t.Helper()
	sender := delivery.New(r.Channel, g.store, r.Log)
	flush, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(g.t.Context(), conversation.Scope{Channel: "discord"}, flush)
	}()
	sender.Enqueue(replies...)
	sent, err := g.srv.WaitSentTo(deadline(g.t), place, n)
	must(g.t, err)
	close(flush)
	waittest.Receive(g.t, done, "the end of the sender")
	return sent
}

// commitPictures commits an answer with pictures of these sizes in bytes.
func (g *gateway) commitPictures(in conversation.Inbound, text string, sizes ...int) []conversation.Delivery {
	g.t.Helper()
	turn, err := g.store.Begin(g.t.Context(), in.Key, 100)
	must(g.t, err)
	answer := conversation.Message{Role: conversation.RoleAssistant, Content: text, Tokens: 5}
	for n, size := range sizes {
		answer.Images = append(answer.Images, media.Image{Name: fmt.Sprintf("picture-%d.png", n+1), MediaType: "image/png", Size: size, Data: make([]byte, size)})
	}
	committed, err := g.store.Commit(g.t.Context(), conversation.Run{
		Key: in.Key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: in.Text, Tokens: 5}, answer},
		Replies:  []conversation.Delivery{{Key: in.Key, Address: in.Address, Text: text, WithPictures: true}},
	})
	must(g.t, err)
	return committed.Replies
}
