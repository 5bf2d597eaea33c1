package telegramtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
)

var ada = telegramtest.User{ID: 42, FirstName: "Ada"}

// answer is what the server says, in short: "ok", or code and description.
type answer struct {
	OK          bool            `json:"ok"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Result      json.RawMessage `json:"result"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

func (a answer) String() string {
	if a.OK {
		return "ok"
	}
	return fmt.Sprint(a.Code, " ", a.Description)
}

func post(t *testing.T, s *telegramtest.Server, path, contentType, body string) answer {
	t.Helper()
	resp, err := http.Post(s.URL+path, contentType, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Errorf("%s: %v: %s", path, err, raw)
	}
	if a.Code != 0 && a.Code != resp.StatusCode {
		t.Errorf("%s: status %d, error_code %d", path, resp.StatusCode, a.Code)
	}
	return a
}

func call(t *testing.T, s *telegramtest.Server, method string, params ...string) answer {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(params); i += 2 {
		values.Set(params[i], params[i+1])
	}
	return post(t, s, "/bot"+s.Token+"/"+method, "application/x-www-form-urlencoded", values.Encode())
}

func ids(t *testing.T, a answer) (ids []int64) {
	t.Helper()
	var updates []struct {
		ID int64 `json:"update_id"`
	}
	if err := json.Unmarshal(a.Result, &updates); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	for _, u := range updates {
		ids = append(ids, u.ID)
	}
	return ids
}

func TestTokensAndMethodsAreChecked(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	for path, want := range map[string]string{
		"/bot1:wrong/getMe": "401 Unauthorized",
		"/botwrong/getMe":   "404 Not Found",
		"/":                 "404 Not Found",
		"/bot" + telegramtest.Token + "/getEverything":  "404 Not Found: method not found",
		"/bot" + telegramtest.Token + "/getMe":          "ok",
		"/bot" + telegramtest.Token + "/getWebhookInfo": "ok",
	} {
		if got := post(t, s, path, "", "").String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestParametersComeInEveryForm(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	s.AddChat(telegramtest.Private(ada))
	path := "/bot" + telegramtest.Token + "/sendMessage"
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("chat_id", "42")
	w.WriteField("text", "multipart")
	w.Close()
	for _, a := range []answer{
		post(t, s, path+"?chat_id=42&text=query", "", ""),
		post(t, s, path, "application/json", `{"chat_id":42,"text":"json"}`),
		post(t, s, path, w.FormDataContentType(), form.String()),
		call(t, s, "sendMessage", "chat_id", "42", "text", "urlencoded"),
	} {
		if !a.OK {
			t.Error(a)
		}
	}
	var got []string
	for _, m := range s.Sent() {
		got = append(got, m.Text)
	}
	if diff := cmp.Diff([]string{"query", "json", "multipart", "urlencoded"}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestSendMessageRefusesWhatTelegramRefuses(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	forum := telegramtest.Forum(-100, "Project")
	s.AddChat(forum, 7, 8)
	s.AddChat(telegramtest.Private(ada))
	s.Block(43, "bot was blocked by the user")
	s.CloseTopic(-100, 8)
	s.Migrate(-5, -100)
	for _, tt := range []struct {
		want   string
		params []string
	}{
		{"400 Bad Request: message text is empty", []string{"chat_id", "42", "text", " \n"}},
		{"400 Bad Request: message text is empty", []string{"chat_id", "42", "text", "<b></b>", "parse_mode", "HTML"}},
		{"ok", []string{"chat_id", "42", "text", strings.Repeat("😀", 2048)}},
		{"ok", []string{"chat_id", "42", "text", "<b>" + strings.Repeat("&lt;", 4096) + "</b>", "parse_mode", "HTML"}},
		{"400 Bad Request: message is too long", []string{"chat_id", "42", "text", strings.Repeat("😀", 2048) + "x"}},
		{"400 Bad Request: text is too long", []string{"chat_id", "42", "text", strings.Repeat("x", 1<<15+1)}},
		{"400 Bad Request: can't parse entities: unsupported start tag \"p\" at byte offset 0", []string{"chat_id", "42", "text", "<p>x</p>", "parse_mode", "HTML"}},
		{"400 Bad Request: chat not found", []string{"chat_id", "99", "text", "x"}},
		{"400 Bad Request: message thread not found", []string{"chat_id", "-100", "message_thread_id", "9", "text", "x"}},
		{"400 Bad Request: TOPIC_CLOSED", []string{"chat_id", "-100", "message_thread_id", "8", "text", "x"}},
		{"ok", []string{"chat_id", "-100", "message_thread_id", "7", "text", "x"}},
		{"403 Forbidden: bot was blocked by the user", []string{"chat_id", "43", "text", "x"}},
		{"400 Bad Request: group chat was upgraded to a supergroup chat", []string{"chat_id", "-5", "text", "x"}},
		{"400 Bad Request: message to be replied not found", []string{"chat_id", "42", "text", "x", "reply_parameters", `{"message_id":99}`}},
		{"ok", []string{"chat_id", "42", "text", "x", "reply_parameters", `{"message_id":99,"allow_sending_without_reply":true}`}},
		{"ok", []string{"chat_id", "42", "text", "x", "reply_parameters", `{"message_id":1}`}},
	} {
		if got := call(t, s, "sendMessage", tt.params...).String(); got != tt.want {
			t.Errorf("%.80q: %s, want %s", tt.params, got, tt.want)
		}
	}
}

func TestParseHTML(t *testing.T) {
	t.Parallel()
	text, entities, err := telegramtest.ParseHTML(
		`<b>a<i>😀</i></b> <a href="https://x.org/?a&amp;b">&lt;l&#62;</a> <pre><code class="language-go">x</code></pre>`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a😀 <l> x", text); diff != "" {
		t.Error(diff)
	}
	want := []telegramtest.Entity{
		{Type: "italic", Offset: 1, Length: 2}, {Type: "bold", Offset: 0, Length: 3},
		{Type: "text_link", Offset: 4, Length: 3, URL: "https://x.org/?a&b"},
		{Type: "pre", Offset: 8, Length: 1, Language: "go"},
	}
	if diff := cmp.Diff(want, entities); diff != "" {
		t.Error(diff)
	}
	for _, broken := range []string{
		"<b>", "</b>", "<b><i></b></i>", "<b", "a < b", "a & b", "&nbsp;", "&#0;", "a > b", "<br>", "<div>x</div>", "<B>x</B>",
		`<b class="x">y</b>`, "<a>x</a>", `<a href=x>y</a>`, `<a href="x" title="y">z</a>`, "<span>x</span>",
		"<code><b>x</b></code>", "<pre><i>x</i></pre>", "<b><code>x</code></b>x</b>",
		"<blockquote>a<blockquote>b</blockquote></blockquote>", `<a href="x"><a href="y">z</a></a>`,
	} {
		if _, _, err := telegramtest.ParseHTML(broken); err == nil {
			t.Errorf("%s is taken", broken)
		}
	}
}

func TestGetUpdatesConfirmsByOffset(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	for range 3 {
		s.Say(telegramtest.Private(ada), ada, "hi")
	}
	all := ids(t, call(t, s, "getUpdates"))
	if again := ids(t, call(t, s, "getUpdates", "limit", "2")); !cmp.Equal(all[:2], again) {
		t.Fatalf("%v, then %v", all, again)
	}
	rest := ids(t, call(t, s, "getUpdates", "offset", fmt.Sprint(all[2])))
	if !cmp.Equal(all[2:], rest) || s.Pending() != 1 {
		t.Fatalf("%v, %d pending", rest, s.Pending())
	}
	if last := ids(t, call(t, s, "getUpdates", "offset", "-1")); !cmp.Equal(all[2:], last) {
		t.Fatalf("offset -1: %v", last)
	}
	if none := ids(t, call(t, s, "getUpdates", "offset", fmt.Sprint(all[2]+1))); len(none) != 0 {
		t.Fatalf("%v after all were confirmed", none)
	}
	if n := s.Redeliver(all[1]); n != 2 {
		t.Fatalf("%d redelivered", n)
	}
	if again := ids(t, call(t, s, "getUpdates", "offset", fmt.Sprint(all[2]+1))); len(again) != 2 {
		t.Fatalf("%v after redelivery", again)
	}
}

func TestGetUpdatesWaitsAndEndsTheOlderPoll(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	older := make(chan answer, 1)
	go func() { older <- call(t, s, "getUpdates", "timeout", "30") }()
	if err := s.WaitPolling(ctx); err != nil {
		t.Fatal(err)
	}
	newer := make(chan answer, 1)
	go func() { newer <- call(t, s, "getUpdates", "timeout", "30") }()
	if got := (<-older).String(); !strings.HasPrefix(got, "409 Conflict: terminated by other getUpdates request") {
		t.Fatal(got)
	}
	said := s.Say(telegramtest.Private(ada), ada, "hi")
	if got := ids(t, <-newer); !cmp.Equal([]int64{said.UpdateID}, got) {
		t.Fatal(got)
	}
	s.SetWebhook("https://example.org")
	if got := call(t, s, "getUpdates").String(); !strings.HasPrefix(got, "409 Conflict: can't use getUpdates method while webhook is active") {
		t.Fatal(got)
	}
	call(t, s, "deleteWebhook")
	if got := call(t, s, "getUpdates"); !got.OK {
		t.Fatal(got)
	}
}

func TestAllowedUpdatesAreRemembered(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	call(t, s, "getUpdates", "allowed_updates", `["edited_message"]`)
	s.Say(telegramtest.Private(ada), ada, "hi")
	if got := ids(t, call(t, s, "getUpdates")); len(got) != 0 {
		t.Fatal(got)
	}
	s.Push(`{"poll":{}}`)
	if got := ids(t, call(t, s, "getUpdates")); len(got) != 1 {
		t.Fatal(got)
	}
}

func TestScriptedRefusals(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	s.AddChat(telegramtest.Private(ada))
	s.Refuse(42, telegramtest.TooMany(3), 1)
	s.Fail("getMe", telegramtest.Verdict{Code: 500}, 1)
	a := call(t, s, "sendMessage", "chat_id", "42", "text", "x")
	if a.String() != "429 Too Many Requests: retry after 3" || a.Parameters.RetryAfter != 3 {
		t.Fatal(a)
	}
	if a := call(t, s, "getMe"); a.Code != 500 {
		t.Fatal(a)
	}
	if a := call(t, s, "getMe"); !a.OK {
		t.Fatal(a)
	}
	s.LimitRates(0.001, 0) // so that no time passes in which another message is taken
	call(t, s, "sendMessage", "chat_id", "42", "text", "x")
	if a := call(t, s, "sendMessage", "chat_id", "42", "text", "x"); a.Code != 429 {
		t.Fatal(a)
	}
}

func TestHooksSeeAMessageBeforeAndAfterItIsTaken(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	s.AddChat(telegramtest.Private(ada))
	var seen []string
	s.OnSend(func(m telegramtest.Message) telegramtest.Verdict {
		seen = append(seen, fmt.Sprintf("before %s, %d taken", m.Text, len(s.Sent())))
		if m.Text == "refused" {
			return telegramtest.BadGateway()
		}
		return telegramtest.Verdict{}
	}, func(m telegramtest.Message) telegramtest.Verdict {
		seen = append(seen, fmt.Sprintf("after %s, %d taken", m.Text, len(s.Sent())))
		return telegramtest.Verdict{Code: 500}
	})
	path := "/bot" + telegramtest.Token + "/sendMessage?chat_id=42&text="
	for _, text := range []string{"refused", "taken"} {
		resp, err := http.Get(s.URL + path + text)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	want := []string{"before refused, 0 taken", "before taken, 0 taken", "after taken, 1 taken"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Fatal(diff)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := telegramtest.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for chat := range int64(20) {
		who := telegramtest.User{ID: chat + 1, FirstName: "x"}
		wg.Go(func() {
			for range 10 {
				s.Say(telegramtest.Private(who), who, "hi")
				call(t, s, "sendMessage", "chat_id", fmt.Sprint(who.ID), "text", "hello")
			}
		})
	}
	if _, err := s.WaitSent(ctx, 200); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := len(s.SentTo(7)); n != 10 {
		t.Fatalf("%d messages to one chat", n)
	}
}

func BenchmarkSendMessage(b *testing.B) {
	s := telegramtest.New(b)
	s.AddChat(telegramtest.Private(ada))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	body := url.Values{"chat_id": {"42"}, "text": {"A short reply with <b>markup</b>."}, "parse_mode": {"HTML"}}.Encode()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Post(s.URL+"/bot"+telegramtest.Token+"/sendMessage", "application/x-www-form-urlencoded", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

func TestBotsHaveUpdatesAndPrivateChatsOfTheirOwn(t *testing.T) {
	t.Parallel()
	first := telegramtest.New(t)
	second := first.AddBot(telegramtest.User{ID: 7000002, FirstName: "Second", Username: "second_bot"})
	private, group := telegramtest.Private(ada), telegramtest.Group(-1001, "Friends")
	for _, s := range []*telegramtest.Server{first, second} {
		if got := call(t, s, "getMe"); !strings.Contains(string(got.Result), s.Bot.Username) {
			t.Errorf("getMe: %s", got.Result)
		}
		if said := s.Say(private, ada, "hello"); said.MessageID != 1 {
			t.Errorf("the first message of %s has the id %d", s.Bot.Username, said.MessageID)
		}
		if got := ids(t, call(t, s, "getUpdates")); len(got) != 1 {
			t.Errorf("%s has the updates %v", s.Bot.Username, got)
		}
		if got := call(t, s, "sendMessage", "chat_id", "42", "text", "hi").String(); got != "ok" {
			t.Errorf("%s sends: %s", s.Bot.Username, got)
		}
		if sent := s.SentTo(ada.ID); len(sent) != 1 || sent[0].ID != 2 {
			t.Errorf("%s has sent %+v", s.Bot.Username, sent)
		}
		s.AddChat(group)
	}
	first.Say(group, ada, "hello all")
	if one, other := call(t, first, "getUpdates", "offset", "1002"), call(t, second, "getUpdates", "offset", "1002"); string(one.Result) != string(other.Result) {
		t.Errorf("the bots are told of a group's message as\n%s\n%s", one.Result, other.Result)
	}
	if got := call(t, second, "sendMessage", "chat_id", "43", "text", "hi").String(); got != "400 Bad Request: chat not found" {
		t.Errorf("to somebody who has not written to the bot: %s", got)
	}
}
