package discordtest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
)

// rewrite sends requests to Discord's hosts to the server.
type rewrite struct{ to *url.URL }

func (rt rewrite) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = rt.to.Scheme, rt.to.Host, rt.to.Host
	return http.DefaultTransport.RoundTrip(r)
}

// client is a discordgo bot that records the messages that it receives.
type client struct {
	*discordgo.Session
	mu    sync.Mutex
	heard []*discordgo.Message
	told  chan struct{} // one for each message heard, or interaction
}

const usual = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages | discordgo.IntentMessageContent

// newClient returns a client that is not connected yet.
func newClient(t *testing.T, s *discordtest.Server) *client {
	t.Helper()
	session, err := discordgo.New("Bot " + discordtest.Token)
	if err != nil {
		t.Fatal(err)
	}
	to, _ := url.Parse(s.URL)
	session.Client = &http.Client{Transport: rewrite{to}}
	session.SyncEvents = true
	session.Identify.Intents = usual
	c := &client{Session: session, told: make(chan struct{}, 1000)}
	session.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard = append(c.heard, m.Message)
		c.told <- struct{}{}
	})
	return c
}

func connect(t *testing.T, s *discordtest.Server) *client {
	t.Helper()
	c := newClient(t, s)
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hears waits for n messages in all.
func (c *client) hears(t *testing.T, n int) []*discordgo.Message {
	t.Helper()
	deadline := time.After(90 * time.Second)
	for {
		c.mu.Lock()
		heard := append([]*discordgo.Message(nil), c.heard...)
		c.mu.Unlock()
		if len(heard) >= n {
			return heard
		}
		select {
		case <-c.told:
		case <-deadline:
			t.Fatalf("%d messages heard, want %d", len(heard), n)
		}
	}
}

func contents(messages []*discordgo.Message) (texts []string) {
	for _, m := range messages {
		texts = append(texts, m.Content)
	}
	return texts
}

func withTimeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// requireStrict fails the test if a client sent something malformed.
func requireStrict(t *testing.T, s *discordtest.Server) {
	t.Helper()
	for _, v := range s.Violations() {
		t.Errorf("malformed: %s", v)
	}
}

func TestDiscordgoBotReceivesAndReplies(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	guild := s.Guild("Workshop")
	general := s.Channel(guild, "general")
	c := connect(t, s)
	if err := s.WaitConnected(withTimeout(t), 1); err != nil {
		t.Fatal(err)
	}
	said := s.Say(general, ada, "hello "+discordtest.Bot.Mention())
	heard := c.hears(t, 1)[0]
	if heard.ID != said.ID || heard.GuildID != guild.ID || heard.Content != said.Content || heard.Member == nil ||
		len(heard.Mentions) != 1 || heard.Mentions[0].ID != discordtest.Bot.ID {
		t.Fatalf("heard %+v", heard)
	}
	got, err := c.ChannelMessageSendReply(general.ID, "hello yourself", heard.Reference())
	if err != nil {
		t.Fatal(err)
	}
	sent := s.SentTo(general)
	if len(sent) != 1 || sent[0].ID != got.ID || sent[0].ReplyTo != said.ID || sent[0].Content != "hello yourself" {
		t.Fatalf("sent %+v", sent)
	}
	if own := c.hears(t, 2)[1]; own.ID != got.ID || own.Author.ID != discordtest.Bot.ID {
		t.Fatalf("the bot's own message came back as %+v", own)
	}
	if ch, err := c.State.Channel(general.ID); err != nil || ch.Name != "general" {
		t.Fatalf("the client knows the channel as %+v, %v", ch, err)
	}
	requireStrict(t, s)
}

func TestDiscordgoResumesAfterACutConnection(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	c := connect(t, s)
	s.Say(general, ada, "one")
	c.hears(t, 1)
	s.DropConnections()
	s.Say(general, ada, "two")
	s.Say(general, ada, "three")
	c.hears(t, 3)
	s.AskReconnect()
	if err := s.Wait(withTimeout(t), "a second resume", func() bool { return s.Counts().Resumes >= 1 && s.Counts().Connections >= 3 }); err != nil {
		t.Fatal(err)
	}
	s.Say(general, ada, "four")
	if diff := cmp.Diff([]string{"one", "two", "three", "four"}, contents(c.hears(t, 4))); diff != "" {
		t.Error(diff)
	}
	if n := s.Counts().Identifies; n != 1 {
		t.Errorf("%d sessions", n)
	}
	requireStrict(t, s)
}

func TestDiscordgoResumesWhenItIsClosed(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	c := connect(t, s)
	s.CloseConnections(discordtest.UnknownError)
	if err := s.WaitDisconnected(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	s.Say(general, ada, "while away")
	c.hears(t, 1)
	if got := s.Counts(); got.Resumes != 1 || got.Identifies != 1 {
		t.Errorf("%+v", got)
	}
}

func TestDiscordgoBeginsAnewWhenItsSessionIsInvalid(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	c := connect(t, s)
	s.InvalidateSessions(false)
	if err := s.Wait(withTimeout(t), "a new session", func() bool { return s.Counts().Identifies == 2 }); err != nil {
		t.Fatal(err)
	}
	s.Say(general, ada, "hello")
	c.hears(t, 1)
	requireStrict(t, s)
}

func TestDiscordgoIsRefused(t *testing.T) {
	t.Parallel()
	s := discordtest.NewWith(t, discordtest.Config{WithoutMessageContent: true})
	c := newClient(t, s)
	if err := c.Open(); err == nil || !strings.Contains(err.Error(), "4014") {
		t.Errorf("opened without the intent: %v", err)
	}
	c = newClient(t, s)
	c.Identify.Token, c.Identify.Intents = "Bot wrong", discordgo.IntentsGuilds
	if err := c.Open(); err == nil || !strings.Contains(err.Error(), "4004") {
		t.Errorf("opened with a wrong token: %v", err)
	}
	_, err := c.ChannelMessageSend("5", "x")
	if rest, ok := err.(*discordgo.RESTError); !ok || rest.Message.Code != discordgo.ErrCodeUnknownChannel {
		t.Errorf("sent to an unknown channel: %v", err)
	}
}

func TestDiscordgoAnswersACommand(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	c := newClient(t, s)
	c.AddHandler(func(_ *discordgo.Session, i *discordgo.InteractionCreate) {
		n := i.ApplicationCommandData().Options[0].IntValue()
		err := c.InteractionRespond(i.Interaction, &discordgo.InteractionResponse{
			Type: discordgo.InteractionResponseDeferredChannelMessageWithSource,
			Data: &discordgo.InteractionResponseData{Flags: discordgo.MessageFlagsEphemeral},
		})
		if err != nil {
			t.Error(err)
		}
		text := fmt.Sprintf("the last %d for %s", n, i.User.Username)
		if _, err := c.InteractionResponseEdit(i.Interaction, &discordgo.WebhookEdit{Content: &text}); err != nil {
			t.Error(err)
		}
	})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_, err := c.ApplicationCommandBulkOverwrite(discordtest.ApplicationID, "", []*discordgo.ApplicationCommand{{
		Name: "history", Description: "What was said",
		Options: []*discordgo.ApplicationCommandOption{{Type: discordgo.ApplicationCommandOptionInteger, Name: "n", Description: "How many"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Slash(s.DM(ada), ada, "history", discordtest.Arg("n", 3))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := s.WaitAnswers(withTimeout(t), i, 1)
	if err != nil || answers[0].Content != "the last 3 for Ada" {
		t.Errorf("%+v %v", answers, err)
	}
	requireStrict(t, s)
}

func TestManyPlacesAtOnce(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	guild := s.Guild("g")
	c := connect(t, s)
	var wg sync.WaitGroup
	for place := range 20 {
		channel, who := s.Channel(guild, fmt.Sprint(place)), s.Person(fmt.Sprint(place))
		wg.Go(func() {
			for n := range 10 {
				s.Say(channel, who, fmt.Sprint(n))
				if _, err := c.ChannelMessageSend(channel.ID, "answer"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if sent, err := s.WaitSent(withTimeout(t), 200); err != nil || len(sent) != 200 {
		t.Errorf("%d messages, %v", len(sent), err)
	}
	c.hears(t, 400)
	requireStrict(t, s)
}
