package discord

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/channels/access"
	"parley/channels/discord/discordtest"
)

// FuzzEvent checks that a message accepted from any event can be stored, answered and shown, and is not many times as long as
// the event.
func FuzzEvent(f *testing.F) {
	const author = `"id":"5000000000000","channel_id":"20","author":{"id":"9","username":"ann","global_name":"Ann"}`
	for _, seed := range []string{
		`{` + author + `,"content":"<@1> hi <@9> <#20> <@&8> <:wave:3>","mentions":[{"id":"1"},{"id":"9","username":"ann"}],"attachments":[{"id":"7","filename":"a.png","size":3,"url":"https://cdn.discordapp.com/a"}]}`,
		`{` + author + `,"content":"what?","type":19,"message_reference":{"message_id":"3"},"referenced_message":{"id":"3","type":0,"content":"","author":{"id":"8","username":"ci","bot":true},"embeds":[{"title":"T","url":"u","description":"d","author":{"name":"CI"},"fields":[{"name":"n","value":"v"}],"footer":{"text":"f"}}]}}`,
		`{` + author + `,"content":"","message_reference":{"type":1,"message_id":"3"},"message_snapshots":[{"message":{"content":"hi","sticker_items":[{"name":"Wave"}],"attachments":[{"id":"1"}]}}],"edited_timestamp":"2024-01-01T00:00:00Z"}`,
		`{` + author + `,"content":"","poll":{"question":{"text":"Q"},"answers":[{"answer_id":1,"poll_media":{"text":"a","emoji":{"name":"🍕"}}}],"results":{"is_finalized":true,"answer_counts":[{"id":1,"count":3}]}},"webhook_id":"4","member":{"nick":"N","roles":["8"]}}`,
		`{"id":"5000000000000","type":2,"token":"t","channel_id":"20","member":{"user":{"id":"9","username":"ann"}},"data":{"name":"history","options":[{"name":"count","value":5},{"name":"which","value":"a b"}]}}`,
		`{"id":"10","name":"G","channels":[{"id":"20","type":0,"name":"general"}],"threads":[{"id":"21","type":11,"parent_id":"20","owner_id":"1"}],"roles":[{"id":"8","name":"R","permissions":"9","tags":{"bot_id":"1"}}]}`,
	} {
		f.Add([]byte(seed))
	}
	config := DefaultConfig()
	config.Token, config.Access, config.AutoThread, config.ThreadContext, config.Context = discordtest.Token, access.Open, true, true, 5
	c, err := New(Deps{Config: config, Commands: commands, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := c.newIntake(nil)
		in.me = user{ID: "1", Username: "parley"}
		e := event{data: data}
		in.world.addGuild(guild{ID: "10", Name: "G", Channels: []channel{{ID: "20", Name: "general"}}, Threads: []channel{{ID: "21", Type: typePublicThread, ParentID: "20"}}}, in.me.ID)
		in.world.addGuild(decode[guild](in, e), in.me.ID)
		in.world.places["22"] = &place{id: "22", kind: typeDM}
		check := func(texts ...string) {
			t.Helper()
			for _, text := range texts {
				if !utf8.ValidString(text) || len(text) > 64*len(data)+100 {
					t.Errorf("%d bytes become %d: %.100q", len(data), len(text), text)
				}
			}
		}
		i := decode[interaction](in, e)
		by, as := i.user()
		check(commandText(in.Commands, &i), by.shown(as))
		m := decode[message](in, e)
		for _, p := range in.world.places {
			if why := in.whyIgnored(&m, p); why == "no id or author" || why == "nobody wrote it" {
				continue
			}
			aside := in.aside(&m, p)
			check(aside.Text, aside.Sender.Name)
			got := in.inbound(&m, p)
			check(got.Text, got.Sender.Name, got.Place, got.Title, string(got.Key))
			if got.Text == "" && len(got.Attachments) == 0 || got.Sender.Name == "" || got.Key.Channel() != name {
				t.Errorf("accepted: %+v", got)
			}
			if _, err := parseAddress(got.Address); err != nil {
				t.Errorf("the address %q: %v", got.Address, err)
			}
			for _, a := range got.Attachments {
				if a.Size < 0 || strings.ContainsAny(a.Name, "\x00\n") {
					t.Errorf("the file %+v", a)
				}
			}
		}
	})
}
