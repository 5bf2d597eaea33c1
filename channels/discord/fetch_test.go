package discord

import (
	"io"
	"strings"
	"testing"

	"parley/channels"
	"parley/channels/discord/discordtest"
	"parley/conversation/media"
)

// fetch returns the bytes of a file.
func fetch(t *testing.T, c channels.Fetcher, file media.Attachment) ([]byte, error) {
	t.Helper()
	body, err := c.Fetch(deadline(t), file)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func TestFilesAreFetchedFromDiscord(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "", discordtest.Attach(
		discordtest.File{Name: "no\u202etes.txt", ContentType: "text/plain; charset=utf-8", Data: []byte("milk")},
		discordtest.File{Name: "broken.txt", Data: []byte("x"), Verdict: discordtest.ServerError()},
	))
	in := g.wait(1)[0]
	if len(in.Attachments) != 2 || in.Attachments[0].Name != "notes.txt" || in.Attachments[0].Size != 4 {
		t.Fatalf("%+v", in.Attachments)
	}
	data, err := fetch(t, r, in.Attachments[0])
	if string(data) != "milk" {
		t.Errorf("%q, %v", data, err)
	}
	for _, file := range in.Attachments[1:] {
		_, err := fetch(t, r, file)
		if err == nil || strings.Contains(err.Error(), "hm=") || strings.Contains(err.Error(), "http") {
			t.Errorf("%s: %v", file.Name, err)
		}
	}
}

func TestAnExpiredAddressIsAskedForAnew(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	g.srv.Say(g.srv.DM(ann), ann, "", discordtest.Attach(discordtest.File{Name: "notes.txt", Data: []byte("milk")}))
	in := g.wait(1)[0]
	g.srv.Fail("GET /attachments", discordtest.NotFound, 1)
	data, err := fetch(t, r, in.Attachments[0])
	if string(data) != "milk" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestNothingIsFetchedFromElsewhere(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	for _, address := range []string{
		"http://cdn.discordapp.com/a", "https://cdn.discordapp.com.evil.example/a", "https://evil.example/a", "file:///etc/passwd",
		g.srv.URL + "/attachments/1/2/a", "https://discord.com/api/v9/users/@me", "https://u@evil.example\\@cdn.discordapp.com/a",
	} {
		file := media.Attachment{Name: "a", Ref: ref{Channel: "1", Message: "2", File: "3", URL: address}.String()}
		if _, err := fetch(t, c, file); err == nil {
			t.Errorf("%s was fetched", address)
		}
	}
	if n := g.srv.Calls("GET /attachments"); n != 0 {
		t.Errorf("%d downloads", n)
	}
}

func TestAReplyBringsThePictureThatItIsAbout(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
	g.run()
	picture := g.srv.Say(general, bob, "my cat", discordtest.Attach(discordtest.File{Name: "cat.png", Data: []byte("x")}))
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" what is it?", discordtest.ReplyTo(picture))
	in := g.wait(1)[0]
	if in.Text != "[in reply to Bob:]\n> my cat\n\nwhat is it?" || len(in.Attachments) != 1 || in.Attachments[0].Name != "cat.png" {
		t.Errorf("%+v", in)
	}
}
