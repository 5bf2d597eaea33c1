package telegram_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
)

// Messages that the sender did not write for this chat are never commands, in whatever form the server
// marks them.
func TestForwardedMessagesAreNeverCommands(t *testing.T) {
	t.Parallel()
	private := telegramtest.Private(ada)
	news := telegramtest.Chat{ID: -1009, Type: "channel", Title: "News"}
	user := map[string]any{"type": "user", "date": 1, "sender_user": bob}
	for name, tt := range map[string]struct {
		chat telegramtest.Chat
		with []telegramtest.Option
		want string // the text, and whether it may be a command
	}{
		"written":                  {private, nil, "/clear yes (true)"},
		"written in a group":       {group, nil, "/clear yes (true)"},
		"by an anonymous admin":    {group, []telegramtest.Option{telegramtest.Anonymously()}, "/clear yes (true)"},
		"a reply":                  {private, []telegramtest.Option{telegramtest.ReplyTo(1)}, "/clear yes (true)"},
		"forwarded":                {private, []telegramtest.Option{telegramtest.With("forward_origin", user)}, "[forwarded from Bob]\n/clear yes (false)"},
		"forwarded, null":          {private, []telegramtest.Option{telegramtest.With("forward_origin", nil)}, "/clear yes (true)"},
		"forwarded, another shape": {private, []telegramtest.Option{telegramtest.With("forward_origin", 7)}, "[forwarded]\n/clear yes (false)"},
		"forwarded, by the date":   {private, []telegramtest.Option{telegramtest.With("forward_date", 1)}, "[forwarded]\n/clear yes (false)"},
		"forwarded from somebody":  {private, []telegramtest.Option{telegramtest.With("forward_from", bob)}, "[forwarded from Bob]\n/clear yes (false)"},
		"forwarded from a channel": {private, []telegramtest.Option{telegramtest.With("forward_from_chat", news)}, "[forwarded from the channel News]\n/clear yes (false)"},
		"forwarded, author hidden": {private, []telegramtest.Option{telegramtest.With("forward_sender_name", "Somebody")}, "[forwarded from Somebody]\n/clear yes (false)"},
		"a caption, forwarded": {private, []telegramtest.Option{telegramtest.With("photo", []int{}), telegramtest.With("forward_origin", user)},
			"[forwarded from Bob]\n/clear yes\n[photo] (false)"},
		"through another bot": {private, []telegramtest.Option{telegramtest.With("via_bot", telegramtest.User{ID: 9, IsBot: true, FirstName: "Gif"})},
			"/clear yes (false)"},
		"not automatic": {private, []telegramtest.Option{telegramtest.With("is_automatic_forward", false)}, "/clear yes (true)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.run(g.channel())
			g.srv.Say(tt.chat, ada, "/clear yes", tt.with...)
			in := g.wait(1)[0]
			_, command := in.Command()
			if got := fmt.Sprintf("%s (%v)", in.Text, command); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// In a group, a command is for the bot. The same text as a forward is not, unless it names the bot.
func TestForwardedCommandsInGroupsAreNotForTheBot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	news := telegramtest.Chat{ID: -1009, Type: "channel", Title: "News"}
	origin := telegramtest.With("forward_origin", map[string]any{"type": "channel", "date": 1, "chat": news, "message_id": 1})
	automatic := telegramtest.With("is_automatic_forward", true)
	byChannel := telegramtest.With("sender_chat", news)
	g.srv.Say(group, ada, "/stop", origin)
	g.srv.Say(group, ada, "/stop@parley_bot", origin)
	g.srv.Say(group, ada, "/stop", automatic, byChannel)
	g.srv.Say(group, ada, "/stop", byChannel)
	g.srv.Say(group, ada, "@parley_bot /stop", origin)
	g.srv.Say(group, ada, "@parley_bot /stop", byChannel)
	g.srv.Say(group, ada, "/status")
	got := g.wait(3)
	if diff := cmp.Diff([]string{"[forwarded from the channel News]\n/stop", "/stop", "/status"}, texts(got)); diff != "" {
		t.Fatal(diff)
	}
	for i, want := range []bool{false, false, true} {
		if _, command := got[i].Command(); command != want {
			t.Errorf("%q is a command: %v", got[i].Text, command)
		}
	}
}
