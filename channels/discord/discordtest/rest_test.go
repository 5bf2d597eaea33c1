package discordtest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
)

func TestTokensRoutesAndBodiesAreChecked(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	r, _ := http.NewRequest("GET", s.URL+"/api/v9/users/@me", nil)
	r.Header.Set("Authorization", "Bot wrong")
	if got := do(t, r).String(); got != "401 0 401: Unauthorized" {
		t.Error(got)
	}
	if got := call(t, s, "GET", "/users/@me", ""); got.ID != discordtest.Bot.ID {
		t.Error(got)
	}
	if got := call(t, s, "GET", "/nothing", "").String(); got != "404 0 404: Not Found" {
		t.Error(got)
	}
	general := s.Channel(s.Guild("g"), "general")
	for body, want := range map[string]string{
		`{`:                      "400 50109 The request body contains invalid JSON.",
		"{\"content\":\"\xff\"}": "400 50109 The request body contains invalid JSON.",
		`[]`:                     "400 50035 Invalid Form Body",
		`{"content":5}`:          "400 50035 Invalid Form Body",
	} {
		if got := call(t, s, "POST", "/channels/"+general.ID+"/messages", body).String(); got != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	if got := request(t, s, "POST", "/channels/"+general.ID+"/messages", "text/plain", `{"content":"x"}`); got.Code != 50035 {
		t.Error(got)
	}
	if n := len(s.Violations()); n != 7 { // the user agent of the first request, the route, five bodies
		t.Errorf("%d violations: %q", n, s.Violations())
	}
}

func TestMessagesAreRefusedAsByDiscord(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	guild := s.Guild("g")
	general, mute := s.Channel(guild, "general"), s.Channel(guild, "mute")
	hidden, noHistory := s.Channel(guild, "hidden"), s.Channel(guild, "no history")
	forum := s.ChannelOfType(guild, "forum", discordtest.ForumChannel)
	s.Deny(mute, discordtest.SendMessages|discordtest.AttachFiles)
	s.Deny(hidden, discordtest.ViewChannel)
	s.Deny(noHistory, discordtest.ReadMessageHistory)
	locked, private := s.Thread(general, ada, "locked"), s.Thread(general, ada, "private", discordtest.Private(ada))
	archived := s.Thread(general, ada, "archived")
	s.Archive(locked, true)
	s.Archive(archived, false)
	dm := s.DM(ada)
	said := s.Say(general, ada, "hi")
	join := s.Say(general, ada, "", discordtest.OfType(7))
	text := func(n int) string { return fmt.Sprintf(`{"content":%q}`, strings.Repeat("é", n)) }
	for _, tt := range []struct{ name, want, channel, body string }{
		{"the longest", "200", general.ID, text(2000)},
		{"the longest of astral characters", "200", general.ID, fmt.Sprintf(`{"content":%q}`, strings.Repeat("😀", 2000))},
		{"too long", "400 50035 Invalid Form Body", general.ID, text(2001)},
		{"empty", "400 50006 Cannot send an empty message", general.ID, `{"content":""}`},
		{"white space", "400 50006 Cannot send an empty message", general.ID, `{"content":" \n "}`},
		{"an embed alone", "200", general.ID, `{"embeds":[{"description":"x"}]}`},
		{"no id", "400 50035 Invalid Form Body", "general", `{"content":"x"}`},
		{"unknown channel", "404 10003 Unknown Channel", "5", `{"content":"x"}`},
		{"no permission", "403 50013 Missing Permissions", mute.ID, `{"content":"x"}`},
		{"hidden channel", "403 50001 Missing Access", hidden.ID, `{"content":"x"}`},
		{"private thread of others, with Manage Threads", "200", private.ID, `{"content":"x"}`},
		{"forum", "400 50008 Cannot send messages in a non-text channel", forum.ID, `{"content":"x"}`},
		{"locked thread", "400 50083 Thread is archived", locked.ID, `{"content":"x"}`},
		{"archived thread", "200", archived.ID, `{"content":"x"}`},
		{"DM", "200", dm.ID, `{"content":"x"}`},
		{"reply", "200", general.ID, `{"content":"x","message_reference":{"message_id":"` + said.ID + `"}}`},
		{"reply to nothing", "400 50035 Invalid Form Body", general.ID, `{"content":"x","message_reference":{"message_id":"5"}}`},
		{"reply to nothing, allowed", "200", general.ID, `{"content":"x","message_reference":{"message_id":"5","fail_if_not_exists":false}}`},
		{"reply to a system message", "400 50035 Invalid Form Body", general.ID, `{"content":"x","message_reference":{"message_id":"` + join.ID + `"}}`},
		{"reply without history", "403 160002 Cannot reply without permission to read message history", noHistory.ID, `{"content":"x","message_reference":{"message_id":"5"}}`},
		{"long nonce", "400 50035 Invalid Form Body", general.ID, `{"content":"x","nonce":"12345678901234567890123456"}`},
		{"a number as nonce", "200", general.ID, `{"content":"x","nonce":5}`},
		{"a list as nonce", "400 50035 Invalid Form Body", general.ID, `{"content":"x","nonce":[5]}`},
		{"ephemeral", "400 50035 Invalid Form Body", general.ID, `{"content":"x","flags":64}`},
		{"unknown mentions", "400 50035 Invalid Form Body", general.ID, `{"content":"x","allowed_mentions":{"parse":["all"]}}`},
		{"mentions twice", "400 50035 Invalid Form Body", general.ID, `{"content":"x","allowed_mentions":{"parse":["users"],"users":["5"]}}`},
		{"two buttons of one id", "400 50035 Invalid Form Body", general.ID,
			`{"content":"x","components":[{"type":1,"components":[{"type":2,"style":1,"label":"a","custom_id":"a"},{"type":2,"style":1,"label":"b","custom_id":"a"}]}]}`},
		{"a button without a row", "400 50035 Invalid Form Body", general.ID, `{"content":"x","components":[{"type":2,"style":1,"label":"a","custom_id":"a"}]}`},
	} {
		if got := call(t, s, "POST", "/channels/"+tt.channel+"/messages", tt.body).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	s.CloseDM(ada, true)
	if got := call(t, s, "POST", "/channels/"+dm.ID+"/messages", `{"content":"x"}`).Code; got != 50007 {
		t.Error("closed DM:", got)
	}
	s.Deny(general, discordtest.ManageThreads)
	foreign := s.Thread(general, ada, "foreign", discordtest.Private(ada))
	if got := call(t, s, "POST", "/channels/"+foreign.ID+"/messages", `{"content":"x"}`).Code; got != 50001 {
		t.Error("private thread:", got)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	general := s.Channel(s.Guild("g"), "general")
	got := call(t, s, "POST", "/channels/"+general.ID+"/messages", fmt.Sprintf(`{"content":%q}`, strings.Repeat("x", 2001)))
	want := `{"content":{"_errors":[{"code":"BASE_TYPE_MAX_LENGTH","message":"Must be 2000 or fewer in length."}]}}`
	if diff := cmp.Diff(want, string(got.Errors)); diff != "" {
		t.Error(diff)
	}
}

func TestEnforcedNoncePreventsASecondMessage(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	general := s.Channel(s.Guild("g"), "general")
	send := func(body string) string {
		return call(t, s, "POST", "/channels/"+general.ID+"/messages", body).ID
	}
	first := send(`{"content":"a","nonce":"n1","enforce_nonce":true}`)
	if again := send(`{"content":"a","nonce":"n1","enforce_nonce":true}`); again != first {
		t.Errorf("enforced: a second message %s after %s", again, first)
	}
	if other := send(`{"content":"a","nonce":"n1"}`); other == first {
		t.Error("a nonce that is not enforced prevents a message")
	}
	send(`{"content":"b","nonce":"n2","enforce_nonce":true}`)
	s.Advance(time.Hour)
	send(`{"content":"b","nonce":"n2","enforce_nonce":true}`)
	if n := len(s.SentTo(general)); n != 4 {
		t.Errorf("%d messages, want 4: a nonce is forgotten after some minutes", n)
	}
	if s.Counts().Nonced != 1 {
		t.Errorf("%+v", s.Counts())
	}
}

func TestMentionsAreComputedAsDiscordDoes(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	guild := s.Guild("g")
	staff := s.Role(guild, "staff")
	general := s.Channel(guild, "general")
	said := s.Say(general, ada, "hi")
	everything := "@everyone " + ada.Mention() + " " + staff.Mention()
	for _, tt := range []struct {
		name, mentions string
		want           discordtest.Pings
	}{
		{"absent", ``, discordtest.Pings{Everyone: true, Users: []string{ada.ID}, Roles: []string{staff.ID}, RepliedUser: true}},
		{"nobody", `,"allowed_mentions":{"parse":[]}`, discordtest.Pings{}},
		{"users", `,"allowed_mentions":{"parse":["users"]}`, discordtest.Pings{Users: []string{ada.ID}}},
		{"one role", `,"allowed_mentions":{"roles":["` + staff.ID + `"],"replied_user":true}`, discordtest.Pings{Roles: []string{staff.ID}, RepliedUser: true}},
	} {
		body := fmt.Sprintf(`{"content":%q,"message_reference":{"message_id":%q}%s}`, everything, said.ID, tt.mentions)
		sent := call(t, s, "POST", "/channels/"+general.ID+"/messages", body)
		m, _ := s.Message(sent.ID)
		if diff := cmp.Diff(tt.want, m.Pinged); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if (m.AllowedMentions == nil) != (tt.mentions == "") {
			t.Errorf("%s: kept as %q", tt.name, m.AllowedMentions)
		}
	}
	sent := call(t, s, "POST", "/channels/"+general.ID+"/messages", `{"content":"x","allowed_mentions":{"parse":[]}}`)
	call(t, s, "PATCH", "/channels/"+general.ID+"/messages/"+sent.ID, `{"content":"@everyone"}`)
	if m, _ := s.Message(sent.ID); !m.Pinged.Everyone || len(m.Versions) != 2 || !m.Versions[0].Pinged.Nobody() {
		t.Errorf("an edit without allowed_mentions: %+v", m.Versions)
	}
}

func TestVersionTenOfTheAPIIsServed(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	r, _ := http.NewRequest("GET", s.URL+"/api/v10/gateway", nil)
	r.Header.Set("User-Agent", "DiscordBot (x, 1)")
	if got := do(t, r); got.Status != 200 || !strings.Contains(string(got.Raw), "ws://") {
		t.Errorf("%s %s", got, got.Raw)
	}
	requireStrict(t, s)
}

func BenchmarkCreateMessage(b *testing.B) {
	s := discordtest.New(b)
	guild := s.Guild("g")
	var paths []string
	for i := range 32 {
		paths = append(paths, s.URL+"/api/v9/channels/"+s.Channel(guild, fmt.Sprint(i)).ID+"/messages")
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var next atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			path := paths[int(next.Add(1))%len(paths)]
			r, _ := http.NewRequest("POST", path, strings.NewReader(`{"content":"A short reply.","allowed_mentions":{"parse":[]}}`))
			r.Header.Set("Authorization", "Bot "+discordtest.Token)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("User-Agent", "DiscordBot (x, 1)")
			resp, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
