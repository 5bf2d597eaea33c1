package discordtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"parley/channels/discord/discordtest"
)

func TestWrongIdentifyClosesTheConnection(t *testing.T) {
	t.Parallel()
	s := discordtest.NewWith(t, discordtest.Config{WithoutMessageContent: true})
	for _, tt := range []struct {
		name, payload string
		want          int
	}{
		{"no token", `{"op":2,"d":{"token":"x","properties":{},"intents":1}}`, 4004},
		{"no intents", `{"op":2,"d":{"token":"` + discordtest.Token + `","properties":{}}}`, 4013},
		{"unknown intents", identify(1<<30, ""), 4013},
		{"message content that is not switched on", identify(1|1<<15, ""), 4014},
		{"members that are not switched on", identify(1|1<<1, ""), 4014},
		{"shard beyond the count", identify(1, `,"shard":[2,2]`), 4010},
		{"no JSON", `{`, 4002},
		{"too large", identify(1, `,"x":"`+strings.Repeat("x", 4096)+`"`), 4002},
		{"unknown opcode", `{"op":99}`, 4003},
		{"presence before it", `{"op":3,"d":{}}`, 4003},
	} {
		g := dial(t, s)
		g.send(tt.payload)
		if got := g.closed(); got != tt.want {
			t.Errorf("%s: closed with %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestReadyThenGuilds(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	guild := s.Guild("g")
	general := s.Channel(guild, "general")
	s.Thread(general, ada, "idea")
	g, first := ready(t, s, "")
	if first.Seq != 1 || first.text("session_id") == "" || first.text("resume_gateway_url") == "" ||
		!strings.Contains(string(first.Data), `"unavailable":true`) {
		t.Errorf("READY %d %s", first.Seq, first.Data)
	}
	known := g.event("GUILD_CREATE")
	for _, want := range []string{general.ID, `"threads":[{`, `"roles":[{`, discordtest.Bot.ID} {
		if !strings.Contains(string(known.Data), want) {
			t.Errorf("GUILD_CREATE lacks %s: %s", want, known.Data)
		}
	}
	g.send(`{"op":1,"d":2}`)
	if ack := g.next(); ack.Op != 11 {
		t.Errorf("%+v", ack)
	}
	g.send(`{"op":1,"d":99}`)
	if got := g.closed(); got != 4007 {
		t.Errorf("a heartbeat from the future: %d", got)
	}
	requireStrict(t, s)
}

func TestAClientWithoutHeartbeatsIsClosed(t *testing.T) {
	t.Parallel()
	s := discordtest.NewWith(t, discordtest.Config{HeartbeatInterval: 2 * time.Second})
	g, _ := ready(t, s, "")
	if got := g.closed(); got != 4009 {
		t.Errorf("closed with %d", got)
	}
	if v := s.Violations(); len(v) != 1 {
		t.Errorf("%q", v)
	}
}

func TestEventsGoToTheShardOfTheirGuild(t *testing.T) {
	t.Parallel()
	s := discordtest.NewWith(t, discordtest.Config{Shards: 2})
	ada := s.Person("Ada")
	first, _ := ready(t, s, `,"shard":[0,2]`)
	second, _ := ready(t, s, `,"shard":[1,2]`)
	s.Say(s.DM(ada), ada, "in a DM")
	for _, name := range []string{"a", "b", "c"} {
		s.Say(s.Channel(s.Guild(name), "general"), ada, "in "+name)
	}
	if got := first.event("MESSAGE_CREATE").text("content"); got != "in a DM" {
		t.Errorf("shard 0 hears %q first", got)
	}
	heard := []string{second.event("MESSAGE_CREATE").text("content")}
	if heard[0] == "in b" {
		heard = append(heard, first.event("MESSAGE_CREATE").text("content"), first.event("MESSAGE_CREATE").text("content"))
	} else {
		heard = append(heard, first.event("MESSAGE_CREATE").text("content"), second.event("MESSAGE_CREATE").text("content"))
	}
	if got := fmt.Sprint(heard); got != "[in b in a in c]" && got != "[in a in b in c]" {
		t.Error(got)
	}
}

func TestContentNeedsTheIntent(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	g := dial(t, s)
	g.send(identify(1<<0|1<<9|1<<12, ""))
	g.event("READY")
	mine := call(t, s, "POST", "/channels/"+general.ID+"/messages", `{"content":"mine"}`)
	own, _ := s.Message(mine.ID)
	s.Say(general, ada, "private talk")
	s.Say(general, ada, "hello "+discordtest.Bot.Mention())
	s.Say(general, ada, "an answer", discordtest.ReplyTo(own))
	s.Say(s.DM(ada), ada, "in a DM")
	for _, want := range []string{"mine", "", "hello " + discordtest.Bot.Mention(), "an answer", "in a DM"} {
		if got := g.event("MESSAGE_CREATE").text("content"); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}

func TestAResumeReplaysWhatWasMissedOnce(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	g, first := ready(t, s, "")
	s.Say(general, ada, "one")
	last := g.event("MESSAGE_CREATE")
	s.DropConnections()
	if err := s.WaitDisconnected(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	s.Say(general, ada, "two")
	s.Say(general, ada, "three")
	resume := func(seq int64) gateway {
		again := dial(t, s)
		again.next() // HELLO
		again.send(fmt.Sprintf(`{"op":6,"d":{"token":%q,"session_id":%q,"seq":%d}}`, discordtest.Token, first.text("session_id"), seq))
		return again
	}
	g = resume(last.Seq)
	for i, want := range []string{"two", "three"} {
		f := g.next()
		if f.Type != "MESSAGE_CREATE" || f.Seq != last.Seq+int64(i)+1 || f.text("content") != want {
			t.Errorf("replayed %+v, want %s", f, want)
		}
	}
	if f := g.next(); f.Type != "RESUMED" || f.Seq != last.Seq+3 {
		t.Errorf("%+v", f)
	}
	g.ws.Close()
	if err := s.WaitDisconnected(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Hour)
	if f := resume(last.Seq + 3).next(); f.Op != 9 || string(f.Data) != "false" {
		t.Errorf("a session of an hour ago: %+v", f)
	}
	if c := s.Counts(); c.Resumes != 1 || c.Rejected != 1 || c.Identifies != 1 {
		t.Errorf("%+v", c)
	}
}

func TestSessionsAreInvalidatedAndForgotten(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	g, first := ready(t, s, "")
	s.AskReconnect()
	if f := g.next(); f.Op != 7 {
		t.Errorf("%+v", f)
	}
	s.InvalidateSessions(true)
	if f := g.next(); f.Op != 9 || string(f.Data) != "true" {
		t.Errorf("%+v", f)
	}
	resume := fmt.Sprintf(`{"op":6,"d":{"token":%q,"session_id":%q,"seq":%d}}`, discordtest.Token, first.text("session_id"), first.Seq)
	g.send(resume)
	g.event("RESUMED")
	s.ForgetSessions()
	s.DropConnections()
	if err := s.WaitDisconnected(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	again := dial(t, s)
	again.next()
	again.send(resume)
	if f := again.next(); f.Op != 9 {
		t.Errorf("a forgotten session: %+v", f)
	}
	again.send(identify(usualIntents, ""))
	again.event("READY")
	s.CloseConnections(discordtest.UnknownError)
	if got := again.closed(); got != 4000 {
		t.Error(got)
	}
	s.CloseNext(discordtest.DisallowedIntents, 1)
	if got := dial(t, s).closed(); got != 4014 {
		t.Error(got)
	}
	requireStrict(t, s)
}

// A second invalidation would make a slow client identify twice on one connection, which Discord
// would then close.
func TestASessionIsInvalidatedOnce(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	g, _ := ready(t, s, "")
	s.InvalidateSessions(false)
	s.InvalidateSessions(false)
	if f := g.next(); f.Op != 9 {
		t.Errorf("%+v", f)
	}
	g.send(identify(usualIntents, ""))
	if f := g.next(); f.Type != "READY" {
		t.Errorf("%+v", f)
	}
	requireStrict(t, s)
}

func TestChangesSendTheirEvents(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	guild := s.Guild("g")
	general, hidden := s.Channel(guild, "general"), s.Channel(guild, "hidden")
	s.Deny(hidden, discordtest.ViewChannel)
	s.Thread(hidden, ada, "within")
	g, _ := ready(t, s, "")
	g.event("GUILD_CREATE")
	s.Say(hidden, ada, "unheard")
	a, b := s.Say(general, ada, "a"), s.Say(general, ada, "b")
	s.Edit(a, "a!")
	s.Unfurl(b)
	s.Delete(a)
	c := s.Say(general, ada, "c")
	s.Delete(b, c)
	thread := s.ThreadOn(s.Say(general, ada, "d"), ada, "named")
	s.Rename(thread, "renamed")
	s.Archive(thread, false)
	s.Say(thread, ada, "e")
	s.Remove(thread)
	s.Rename(general, "lobby")
	s.Allow(hidden, discordtest.ViewChannel)
	s.RemoveBot(guild)
	for _, want := range []string{
		"MESSAGE_CREATE", "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_CREATE", "MESSAGE_DELETE_BULK",
		"MESSAGE_CREATE", "THREAD_CREATE", "MESSAGE_CREATE", "MESSAGE_UPDATE", "THREAD_UPDATE", "THREAD_UPDATE",
		"THREAD_UPDATE", "MESSAGE_CREATE", "THREAD_DELETE", "CHANNEL_UPDATE", "CHANNEL_UPDATE", "THREAD_LIST_SYNC", "GUILD_DELETE",
	} {
		if got := g.next().Type; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

func TestIdentifyingTooFastIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := discordtest.NewWith(t, discordtest.Config{MaxConcurrency: 1, Clock: func() time.Time { return now }})
	ready(t, s, "")
	g := dial(t, s)
	g.next()
	g.send(identify(usualIntents, ""))
	if f := g.next(); f.Op != 9 || string(f.Data) != "false" {
		t.Errorf("%+v", f)
	}
	s.Advance(5 * time.Second)
	g.send(identify(usualIntents, ""))
	g.event("READY")
}

func TestTooManyPayloadsAreRefused(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	g, _ := ready(t, s, "")
	for range 120 {
		g.send(`{"op":1,"d":null}`)
	}
	if got := g.closed(); got != 4008 {
		t.Error(got)
	}
}

func TestStoppedAcksLeaveAClientWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	g, _ := ready(t, s, "")
	s.StopAcks(true)
	g.send(`{"op":1,"d":null}`)
	if err := s.Wait(withTimeout(t), "the heartbeat", func() bool { return s.Counts().Heartbeats == 1 }); err != nil {
		t.Fatal(err)
	}
	s.Push("UNHEARD_OF", discordtest.Guild{}, `{"x":1}`)
	if f := g.next(); f.Type != "UNHEARD_OF" {
		t.Errorf("%+v", f)
	}
}

func TestAClientThatClosesNormallyEndsItsSession(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	g, first := ready(t, s, "")
	g.ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	if err := s.WaitDisconnected(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	again := dial(t, s)
	again.next()
	again.send(fmt.Sprintf(`{"op":6,"d":{"token":%q,"session_id":%q,"seq":1}}`, discordtest.Token, first.text("session_id")))
	if f := again.next(); f.Op != 9 {
		t.Errorf("%+v", f)
	}
}
