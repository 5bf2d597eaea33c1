package discordtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
)

func TestMessagesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	now := time.Now()
	var ids []string
	for i := range 120 {
		ids = append(ids, s.Say(general, ada, fmt.Sprint(i), discordtest.At(now.Add(time.Duration(i-120)*time.Minute))).ID)
	}
	list := func(query string) string {
		var messages []struct{ Content string }
		if err := json.Unmarshal(call(t, s, "GET", "/channels/"+general.ID+"/messages"+query, "").Raw, &messages); err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			return "none"
		}
		return messages[0].Content + "-" + messages[len(messages)-1].Content
	}
	for query, want := range map[string]string{
		"":                            "119-70",
		"?limit=100":                  "119-20",
		"?limit=10&after=" + ids[30]:  "40-31",
		"?limit=10&before=" + ids[30]: "29-20",
		"?limit=5&around=" + ids[30]:  "32-28",
		"?after=" + ids[119]:          "none",
		"?limit=2&after=0":            "1-0",
		"?limit=3&after=" + discordtest.Snowflake(now.Add(-10*time.Minute-time.Second)): "112-110",
	} {
		if got := list(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"?limit=101", "?limit=0", "?after=x", "?after=1&before=2"} {
		if got := call(t, s, "GET", "/channels/"+general.ID+"/messages"+query, "").Code; got != 50035 {
			t.Errorf("%s: %d", query, got)
		}
	}
}

func TestFilesAreTakenAndServed(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	general := s.Channel(s.Guild("g"), "general")
	contentType, body := form(t, `{"content":"see"}`, map[string]string{"files[0]": "the text"})
	if got := request(t, s, "POST", "/channels/"+general.ID+"/messages", contentType, body); got.Status != 200 {
		t.Fatal(got)
	}
	sent := s.SentTo(general)
	if len(sent) != 1 || len(sent[0].Files) != 1 || sent[0].Files[0].Name != "notes.txt" || string(sent[0].Files[0].Data) != "the text" {
		t.Fatalf("%+v", sent)
	}
	address := strings.Replace(sent[0].Files[0].URL, "https://cdn.discordapp.com", s.URL, 1)
	download := func() answer {
		r, _ := http.NewRequest("GET", address, nil)
		return do(t, r)
	}
	if got := download(); string(got.Raw) != "the text" || got.Header.Get("Content-Type") == "" {
		t.Errorf("%d %q", got.Status, got.Raw)
	}
	ada := s.Person("Ada")
	said := s.Say(general, ada, "look", discordtest.Attach(discordtest.File{Name: "a b.png", Data: []byte("png"), ClaimedSize: 5}))
	if got := call(t, s, "GET", "/channels/"+general.ID+"/messages/"+said.ID, ""); !strings.Contains(string(got.Raw), `"size":5`) {
		t.Errorf("%s", got.Raw)
	}
	s.Fail("GET /attachments", discordtest.NotFound, 1)
	if got := download(); got.Status != 404 {
		t.Error(got)
	}
	contentType, body = form(t, `{}`, map[string]string{"files[0]": strings.Repeat("x", 10<<20+1)})
	if got := request(t, s, "POST", "/channels/"+general.ID+"/messages", contentType, body); got.Code != 40005 {
		t.Error(got)
	}
	contentType, body = form(t, `{"content":"x"}`, map[string]string{"document": "x"})
	if got := request(t, s, "POST", "/channels/"+general.ID+"/messages", contentType, body); got.Code != 50035 {
		t.Error(got)
	}
}

func TestOnlyOwnMessagesAreChanged(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	path := "/channels/" + general.ID + "/messages/"
	said := s.Say(general, ada, "hi")
	mine := call(t, s, "POST", "/channels/"+general.ID+"/messages", `{"content":"a"}`).ID
	for _, tt := range []struct{ method, id, body, want string }{
		{"PATCH", said.ID, `{"content":"x"}`, "403 50005 Cannot edit a message authored by another user"},
		{"DELETE", said.ID, "", "403 50013 Missing Permissions"},
		{"PATCH", "5", `{"content":"x"}`, "404 10008 Unknown Message"},
		{"PATCH", mine, `{"content":""}`, "400 50006 Cannot send an empty message"},
		{"PATCH", mine, `{"content":"b"}`, "200"},
		{"GET", mine, "", "200"},
		{"DELETE", mine, "", "204"},
		{"DELETE", mine, "", "404 10008 Unknown Message"},
	} {
		if got := call(t, s, tt.method, path+tt.id, tt.body).String(); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.body, got, tt.want)
		}
	}
	all := s.Sent()
	if len(s.SentTo(general)) != 0 || len(all) != 1 || !all[0].Deleted || all[0].Versions[0].Content != "a" || all[0].Content != "b" {
		t.Errorf("%+v", all)
	}
}

func TestThreads(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	said := s.Say(general, ada, "a question")
	path := "/channels/" + general.ID + "/messages/" + said.ID + "/threads"
	if got := call(t, s, "POST", path, `{"name":""}`); got.Code != 50035 {
		t.Error(got)
	}
	made := call(t, s, "POST", path, `{"name":"A question"}`)
	if made.Status != 201 || made.ID != said.ID {
		t.Fatal(made)
	}
	if got := call(t, s, "POST", path, `{"name":"again"}`); got.Code != 160004 {
		t.Error(got)
	}
	threads := s.Threads(general)
	if len(threads) != 1 || threads[0].Parent != general.ID || threads[0].Type != discordtest.PublicThread {
		t.Fatalf("%+v", threads)
	}
	if got := call(t, s, "PATCH", "/channels/"+made.ID, `{"name":"Another"}`); got.Status != 200 {
		t.Error(got)
	}
	if c, _ := s.Place(made.ID); c.Name != "Another" {
		t.Errorf("%+v", c)
	}
	s.Archive(threads[0], false)
	if got := call(t, s, "PATCH", "/channels/"+made.ID, `{"name":"x"}`); got.Code != 50083 {
		t.Error(got)
	}
	if got := call(t, s, "PATCH", "/channels/"+general.ID, `{"name":"x"}`); got.Code != 50013 {
		t.Error(got)
	}
	if got := call(t, s, "POST", "/channels/"+general.ID+"/threads", `{"name":"x","type":11}`); got.Status != 201 {
		t.Error(got)
	}
	if got := call(t, s, "POST", "/channels/"+made.ID+"/threads", `{"name":"x","type":11}`); got.Code != 50024 {
		t.Error(got)
	}
}

func TestForumsAnnouncementsAndPrivateThreads(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	guild := s.Guild("g")
	news := s.ChannelOfType(guild, "news", discordtest.AnnouncementChannel)
	forum := s.ChannelOfType(guild, "forum", discordtest.ForumChannel)
	if got := s.Thread(news, ada, "n").Type; got != discordtest.AnnouncementThread {
		t.Error(got)
	}
	post, first := s.Post(forum, ada, "How?", "a question")
	if post.ID != first.ID || post.Parent != forum.ID || post.Type != discordtest.PublicThread {
		t.Errorf("%+v %+v", post, first)
	}
	if got := call(t, s, "POST", "/channels/"+post.ID+"/messages", `{"content":"so"}`); got.Status != 200 {
		t.Error(got)
	}
	s.Deny(news, discordtest.ManageThreads)
	secret := s.Thread(news, ada, "secret", discordtest.Private(ada))
	if got := call(t, s, "GET", "/channels/"+secret.ID, ""); got.Code != 50001 {
		t.Error(got)
	}
	g, _ := ready(t, s, "")
	s.AddToThread(secret, discordtest.Bot)
	if got := g.event("THREAD_CREATE").text("id"); got != secret.ID {
		t.Error(got)
	}
	s.Say(secret, ada, "psst")
	if got := g.event("MESSAGE_CREATE").text("content"); got != "psst" {
		t.Error(got)
	}
}

func TestAnEditKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	general := s.Channel(s.Guild("g"), "general")
	mine := call(t, s, "POST", "/channels/"+general.ID+"/messages", `{"content":"a","flags":4,"embeds":[{"title":"t"}]}`).ID
	call(t, s, "PATCH", "/channels/"+general.ID+"/messages/"+mine, `{"content":"b"}`)
	m, _ := s.Message(mine)
	if m.Flags != 4 || m.Embeds == nil || m.Content != "b" {
		t.Errorf("%+v", m)
	}
	call(t, s, "PATCH", "/channels/"+general.ID+"/messages/"+mine, `{"flags":0,"embeds":[]}`)
	if m, _ := s.Message(mine); m.Flags != 0 || m.Embeds != nil || m.Content != "b" {
		t.Errorf("%+v", m)
	}
}
