package discordtest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
)

func TestALimitedPlaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := discordtest.NewWith(t, discordtest.Config{Clock: func() time.Time { return now }})
	guild := s.Guild("g")
	slow, free := s.Channel(guild, "slow"), s.Channel(guild, "free")
	s.RateLimit(slow, 2, 5*time.Second)
	send := func(c discordtest.Channel) answer {
		return call(t, s, "POST", "/channels/"+c.ID+"/messages", `{"content":"x"}`)
	}
	for want := 1; want >= 0; want-- {
		got := send(slow)
		if got.Status != 200 || got.Header.Get("X-RateLimit-Remaining") != fmt.Sprint(want) ||
			got.Header.Get("X-RateLimit-Limit") != "2" || got.Header.Get("X-RateLimit-Reset-After") != "5.000" {
			t.Errorf("%s with %v", got, got.Header)
		}
	}
	limited := send(slow)
	if limited.Status != 429 || limited.RetryAfter != 5 || limited.Global || limited.Header.Get("Retry-After") != "5" {
		t.Errorf("%s %+v", limited, limited.Header)
	}
	if got := send(free); got.Status != 200 {
		t.Error(got)
	}
	s.Advance(5 * time.Second)
	if got := send(slow); got.Status != 200 {
		t.Error(got)
	}
	s.LimitRates(0, 0, 1)
	send(free)
	if got := send(free); !got.Global || got.Header.Get("X-RateLimit-Global") != "true" {
		t.Error(got, got.Header)
	}
	if s.Counts().Limited != 2 {
		t.Errorf("%+v", s.Counts())
	}
}

func TestScriptedFailures(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	guild := s.Guild("g")
	general, other := s.Channel(guild, "general"), s.Channel(guild, "other")
	path := "/channels/" + general.ID + "/messages"
	s.Refuse(general, discordtest.BadGateway(), 1)
	s.Refuse(general, discordtest.TooMany(1500*time.Millisecond), 1)
	if got := call(t, s, "POST", "/channels/"+other.ID+"/messages", `{"content":"x"}`); got.Status != 200 {
		t.Error(got)
	}
	if got := call(t, s, "POST", path, `{"content":"x"}`); got.Status != 502 {
		t.Error(got)
	}
	if got := call(t, s, "POST", path, `{"content":"x"}`); got.Status != 429 || got.RetryAfter != 1.5 || got.Header.Get("Retry-After") != "2" {
		t.Error(got, got.Header)
	}
	s.Fail("GET /gateway/bot", discordtest.ServerError(), 1)
	if got := call(t, s, "GET", "/gateway/bot", ""); got.Status != 500 {
		t.Error(got)
	}
	var seen []string
	s.OnSend(func(m discordtest.Message) discordtest.Verdict {
		seen = append(seen, fmt.Sprintf("before %s, %d stand", m.Content, len(s.SentTo(general))))
		return discordtest.Verdict{}
	}, func(m discordtest.Message) discordtest.Verdict {
		seen = append(seen, fmt.Sprintf("after %s, %d stand", m.Content, len(s.SentTo(general))))
		return discordtest.Drop()
	})
	r, _ := http.NewRequest("POST", s.URL+"/api/v9"+path, jsonBody(`{"content":"y","nonce":"n","enforce_nonce":true}`))
	r.Header.Set("Authorization", "Bot "+discordtest.Token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "DiscordBot (x, 1)")
	if resp, err := http.DefaultClient.Do(r); err == nil {
		t.Errorf("answered with %s", resp.Status)
	}
	if again := call(t, s, "POST", path, `{"content":"y","nonce":"n","enforce_nonce":true}`); again.Status != 200 {
		t.Error(again)
	}
	if got := fmt.Sprint(seen); got != "[before y, 0 stand after y, 1 stand]" {
		t.Error(got)
	}
	requireStrict(t, s)
}

func TestAHeldRequestPassesLater(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	general := s.Channel(s.Guild("g"), "general")
	release := make(chan struct{})
	s.Refuse(general, discordtest.Held(release), 1)
	done := make(chan answer, 1)
	go func() { done <- call(t, s, "POST", "/channels/"+general.ID+"/messages", `{"content":"x"}`) }()
	if err := s.WaitCalls(withTimeout(t), "POST /channels/{channel}/messages", 1); err != nil {
		t.Fatal(err)
	}
	if n := len(s.SentTo(general)); n != 0 {
		t.Errorf("%d messages while it is held", n)
	}
	close(release)
	if got := <-done; got.Status != 200 {
		t.Error(got)
	}
}
