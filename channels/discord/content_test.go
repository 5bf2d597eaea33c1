package discord

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
)

// What people send that is neither text nor a file is told in words, also where they forward it or reply to it.
func TestContentsAreToldInWords(t *testing.T) {
	t.Parallel()
	const (
		poll = `"poll":{"question":{"text":"Where to?"},"answers":[
			{"answer_id":1,"poll_media":{"text":"Rome","emoji":{"id":null,"name":"🍕"}}},{"answer_id":2,"poll_media":{"text":"Oslo"}}],
			"results":{"is_finalized":true,"answer_counts":[{"id":1,"count":3},{"id":2,"count":1}]}}`
		card = `"embeds":[{"type":"rich","title":"Build failed","url":"https://ci.example","description":"by <@5>",
			"author":{"name":"CI"},"fields":[{"name":"Tests","value":"3 failed"}],"footer":{"text":"today"}}]`
		link      = `"embeds":[{"type":"link","title":"A page"}]`
		sticker   = `"sticker_items":[{"id":"9","name":"Wave"}]`
		shownCard = "CI\nBuild failed (https://ci.example)\nby <@5>\nTests: 3 failed\ntoday"
		shownPoll = "[closed poll: Where to?]\n- 🍕 Rome (3 votes)\n- Oslo (1 vote)"
	)
	messages := []struct{ fields, want string }{
		{`"content":"vote!",` + poll, "vote!\n" + shownPoll},
		{`"content":"",` + sticker, "[sticker Wave]"},
		{`"content":"look: https://a.example",` + link, "look: https://a.example"},
		{`"content":"","activity":{"type":1,"party_id":"x"}`, "[a message that can't be read]"},
		{`"content":"","message_reference":{"type":1,"message_id":"3"},"message_snapshots":[{"message":{"content":"",` + card + `}}]`, "[forwarded]\n" + shownCard},
		{`"content":"","message_reference":{"type":1,"message_id":"3"},"message_snapshots":[{"message":{"content":"hi",` + sticker + `}}]`, "[forwarded]\nhi\n[sticker Wave]"},
		{`"content":"what is it?","type":19,"message_reference":{"message_id":"3"},"referenced_message":{"id":"3","type":0,"content":"","author":{"id":"8","username":"ci","bot":true},` + card + `}`,
			"[in reply to ci:]\n> CI\n> Build failed (https://ci.example)\n> by <@5>\n> Tests: 3 failed\n> today\n\nwhat is it?"},
		{`"content":"what is it?","type":19,"message_reference":{"message_id":"3"},"referenced_message":{"id":"3","type":0,"content":"","author":{"id":"8","username":"bob"},"attachments":[{"id":"7","filename":"a.png","url":"https://cdn.discordapp.com/a"}]}`,
			"[in reply to bob]\nwhat is it?"},
	}
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.run()
	var want []string
	for i, m := range messages {
		id := number(g.srv.Say(dm, ann, "before").ID) | 1<<20
		g.wait(2*i + 1)
		g.srv.Push("MESSAGE_CREATE", discordtest.Guild{}, fmt.Sprintf(`{"id":"%d","channel_id":%q,"author":{"id":%q,"username":"ann","global_name":"Ann"},%s}`, id, dm.ID, ann.ID, m.fields))
		g.wait(2*i + 2)
		want = append(want, "before", m.want)
	}
	if diff := cmp.Diff(want, texts(g.inbounds())); diff != "" {
		t.Error(diff)
	}
}
