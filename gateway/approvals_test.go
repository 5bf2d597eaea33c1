package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/tools"
)

// approvalGateway is a gateway with a tool that must be allowed, whose calls are counted.
type approvalGateway struct {
	*gatewaytest.Gateway
	*gatewaytest.Browser
	t    *testing.T
	paid atomic.Int64
}

func startApprovalGateway(t *testing.T, sections string) *approvalGateway {
	t.Helper()
	s := &approvalGateway{t: t}
	pay := tools.Tool{Name: "pay", Parameters: json.RawMessage(`{"type":"object"}`),
		Call: tools.Text(func(context.Context, json.RawMessage) (string, error) {
			s.paid.Add(1)
			return "paid", nil
		})}
	s.Gateway = gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Tools: []tools.Tool{pay},
		Config: gatewaytest.OpenToAll + "[tools]\nask = [\"pay\"]\n" + sections})
	s.Model.Reply(calls)
	s.Browser = gatewaytest.NewBrowser(t, s.Gateway.URL)
	return s
}

// send posts JSON to the API.
func (s *approvalGateway) send(path, body string) (status int, answer map[string]any) {
	s.t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.Browser.URL+"/api/v1/sessions/"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	status, text, _ := s.Do(request)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		s.t.Fatalf("%v in %s", err, text)
	}
	return status, answer
}

func TestProgramAnswersAQuestion(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "")
	status, asked := s.send("api:a/messages", `{"text": "pay {\"sum\": 5}"}`)
	list, _ := asked["approvals"].([]any)
	if status != http.StatusAccepted || asked["status"] != "waiting_for_approval" || len(list) != 1 {
		t.Fatalf("%d %v", status, asked)
	}
	if q := list[0].(map[string]any); q["tool"] != "pay" || q["arguments"] != `{"sum": 5}` || q["state"] != "open" {
		t.Errorf("the question: %v", q)
	}
	if page := s.Browser.Page("/console/tools"); !strings.Contains(page, "Waiting for an answer") || !strings.Contains(page, "&#34;sum&#34;: 5") {
		t.Errorf("the console does not list it: %s", page)
	}
	if page := s.Browser.Page("/metrics"); !strings.Contains(page, "parley_approvals_open 1") {
		t.Error("/metrics does not count it")
	}
	if status, answer := s.send("api:a/approvals/99", `{"answer": "allow"}`); status != http.StatusNotFound {
		t.Errorf("an unknown one: %d %v", status, answer)
	}
	if status, answer := s.send("api:b/approvals/1", `{"answer": "allow"}`); status != http.StatusNotFound {
		t.Errorf("that of another session: %d %v", status, answer)
	}
	if status, answer := s.send("api:a/approvals/1", `{"answer": "allow", "by": "Ann"}`); status != http.StatusOK || answer["state"] != "allowed" || answer["by"] != "Ann" {
		t.Errorf("the answer: %d %v", status, answer)
	}
	if status, answer := s.send("api:a/approvals/1", `{"answer": "deny"}`); status != http.StatusConflict {
		t.Errorf("a second answer: %d %v", status, answer)
	}
	text := s.answerTo(asked["id"].(string))
	if !strings.Contains(text, "It says: paid") || s.paid.Load() != 1 {
		t.Errorf("the tool was called %d times, and the answer is %s", s.paid.Load(), text)
	}
	gatewaytest.Await(t, "the answer in the metrics", func() bool {
		return strings.Contains(s.Browser.Page("/metrics"), `parley_approvals_total{answer="allowed"} 1`)
	})
}

// A command is carried out while a question is open, so a program gets its reply at once.
func TestCommandIsAnsweredWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "")
	s.send("api:a/messages", `{"text": "pay {}"}`)
	for _, tt := range []struct{ text, status, reply string }{
		{"/approvals 1", "done", "`pay`"},
		{"/stop", "stopped", "Stopped."},
	} {
		status, answer := s.send("api:a/messages", `{"text": "`+tt.text+`"}`)
		if reply, _ := answer["reply"].(string); status != http.StatusOK || answer["status"] != tt.status || !strings.Contains(reply, tt.reply) {
			t.Errorf("%s: %d %v", tt.text, status, answer)
		}
	}
	s.send("api:a/messages", `{"text": "pay {}"}`)
	if status, answer := s.send("api:a/messages", `{"text": "/retry"}`); status != http.StatusAccepted || answer["status"] != "waiting_for_approval" {
		t.Errorf("a command whose own run asks: %d %v", status, answer)
	}
	if status, answer := s.send("api:a/messages", `{"text": "/approve"}`); status != http.StatusOK || !strings.Contains(answer["reply"].(string), "Allowed") {
		t.Errorf("/approve: %d %v", status, answer)
	}
}

// What ends a conversation ends its open question, as /new does. Else the tool could be allowed for a conversation that is gone, and
// the answer brought a deleted session back. Other changes leave the question open.
func TestEndOfTheConversationEndsTheQuestion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method, path, body string // ACTIVE and OLD are the ids of conversations
		allowed            int    // status of a later answer to the question
	}{
		"reset":                     {"POST", "/sessions/api:a/reset", "{}", http.StatusConflict},
		"archive":                   {"POST", "/sessions/api:a/archive", "", http.StatusConflict},
		"delete the session":        {"DELETE", "/sessions/api:a", "", http.StatusConflict},
		"delete the conversation":   {"DELETE", "/conversations/ACTIVE", "", http.StatusConflict},
		"resume another one":        {"POST", "/sessions/api:a/conversations/OLD/resume", "", http.StatusConflict},
		"delete another one":        {"DELETE", "/conversations/OLD", "", http.StatusOK},
		"resume the active one":     {"POST", "/sessions/api:a/conversations/ACTIVE/resume", "", http.StatusOK},
		"metadata of the session":   {"PATCH", "/sessions/api:a", `{"metadata": {"a": "b"}}`, http.StatusOK},
		"title of the conversation": {"PATCH", "/conversations/ACTIVE", `{"title": "Bills"}`, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startApprovalGateway(t, "")
			_, old := s.send("api:a/messages", `{"text": "hello"}`)
			s.send("api:a/reset", `{}`)
			_, active := s.send("api:a/messages", `{"text": "hello"}`)
			if status, asked := s.send("api:a/messages", `{"text": "pay {}"}`); status != http.StatusAccepted {
				t.Fatalf("%d %v", status, asked)
			}
			path := strings.NewReplacer("ACTIVE", fmt.Sprint(active["conversation"]), "OLD", fmt.Sprint(old["conversation"])).Replace(tt.path)
			request, err := http.NewRequest(tt.method, s.Browser.URL+"/api/v1"+path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			if status, text, _ := s.Do(request); status/100 != 2 {
				t.Fatalf("%d %s", status, text)
			}
			if status, answer := s.send("api:a/approvals/1", `{"answer": "allow"}`); status != tt.allowed {
				t.Errorf("%d %v", status, answer)
			}
			if tt.allowed != http.StatusOK && s.paid.Load() != 0 {
				t.Error("the call was made")
			}
		})
	}
}

// The operator's commands archive and delete without a loop. They end the open question of the conversation, too: else its tool could be
// allowed until it expired, and the answer brought a deleted chat back.
func TestCommandThatEndsTheConversationEndsTheQuestion(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the binary")
	}
	t.Parallel()
	for _, command := range []string{"archive", "delete", "delete while the gateway is down"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			platform := telegramtest.New(t)
			s := startApprovalGateway(t, fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL))
			ada := telegramtest.User{ID: 42, FirstName: "Ada"}
			says := func(text string, want string) {
				t.Helper()
				before := len(platform.SentTo(42))
				platform.Say(telegramtest.Private(ada), ada, text)
				gatewaytest.Await(t, want, func() bool {
					now := platform.SentTo(42)
					return len(now) == before+1 && strings.Contains(now[before].Text, want)
				})
			}
			says("hello", "hello")
			says("pay {}", "May I do this?")
			if command == "delete while the gateway is down" {
				s.Stop()
			}
			if command == "archive" {
				s.MustRun("sessions", "archive", "telegram:chat:42")
			} else {
				s.MustRun("sessions", "delete", "--yes", "telegram:chat:42")
			}
			if command == "delete while the gateway is down" {
				s.Start()
			}
			platform.Press(ada, platform.SentTo(42)[1].ID, "Allow")
			gatewaytest.Await(t, "the words for the press", func() bool {
				now := platform.SentTo(42)[1]
				return strings.Contains(now.Text, "is closed") && len(now.Buttons) == 0
			})
			says("again", "again")
			if s.paid.Load() != 0 {
				t.Error("the tool was called")
			}
			for _, m := range platform.SentTo(42)[2:] {
				if strings.Contains(m.Text, "paid") {
					t.Errorf("the chat is told %q", m.Text)
				}
			}
		})
	}
}

func TestOperatorAnswersInTheConsole(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "approvers = [\"anyone\"]\n")
	s.send("api:a/messages", `{"text": "pay {}"}`)
	form := strings.NewReader("session=api%3Aa&answer=deny")
	request, err := http.NewRequest(http.MethodPost, s.Browser.URL+"/console/approvals/1", form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", s.Browser.URL)
	if status, body, _ := s.Do(request); status != http.StatusOK && status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	status, answer := s.send("api:a/approvals/1", `{"answer": "allow"}`)
	if status != http.StatusConflict || !strings.Contains(fmt.Sprint(answer["detail"]), "denied") || s.paid.Load() != 0 {
		t.Errorf("%d %v", status, answer)
	}
}

func TestOperatorCannotAnswerWithoutBeingAnApprover(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "approvers = [\"telegram:42\"]\n")
	s.send("api:a/messages", `{"text": "pay {}"}`)
	if status, answer := s.send("api:a/approvals/1", `{"answer": "allow"}`); status != http.StatusForbidden {
		t.Errorf("%d %v", status, answer)
	}
	if page := s.Browser.Page("/console/tools"); strings.Contains(page, `value="allow"`) || !strings.Contains(page, "not among its approvers") {
		t.Errorf("the console offers to answer: %s", page)
	}
}

func TestButtonOnTelegramAnswersTheQuestion(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	s := startApprovalGateway(t, fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL))
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	platform.Say(telegramtest.Private(ada), ada, "pay {\"to\": \"a @bob ``` * _ [x](http://y)\"}")
	gatewaytest.Await(t, "the question", func() bool { return len(platform.SentTo(42)) == 1 })
	question := platform.SentTo(42)[0]
	if len(question.Buttons) != 2 || !strings.Contains(question.Text, "@bob") || !strings.Contains(question.Text, `\u0060\u0060\u0060`) {
		t.Fatalf("the question: %+v", question)
	}
	platform.Press(ada, question.ID, "Allow")
	var now []telegramtest.Message
	gatewaytest.Await(t, "the answer, and the question without its buttons", func() bool { // either may come first
		now = platform.SentTo(42)
		return len(now) == 2 && strings.Contains(now[0].Text, "Allowed by Ada") && len(now[0].Buttons) == 0
	})
	if now[1].Text != "It says: paid" || s.paid.Load() != 1 {
		t.Errorf("the chat: %+v", now)
	}
}

// The buttons of a question that nobody has answered in time stay below it.
func TestButtonOfAnExpiredQuestionAnswersInWords(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	s := startApprovalGateway(t, fmt.Sprintf("approve_timeout = \"1s\"\n[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL))
	ada := telegramtest.User{ID: 42, FirstName: "Ada"}
	platform.Say(telegramtest.Private(ada), ada, "pay {}")
	gatewaytest.Await(t, "the end of the question", func() bool { return len(platform.SentTo(42)) == 3 })
	platform.Press(ada, platform.SentTo(42)[0].ID, "Allow")
	gatewaytest.Await(t, "the words for the press", func() bool {
		now := platform.SentTo(42)
		return strings.Contains(now[0].Text, "nobody answered within") && len(now[0].Buttons) == 0
	})
	if s.paid.Load() != 0 {
		t.Error("the tool was called")
	}
}

func TestButtonOnDiscordAnswersTheQuestion(t *testing.T) {
	t.Parallel()
	platform := discordtest.New(t)
	ann := platform.Person("Ann")
	place := platform.DM(ann)
	s := startApprovalGateway(t, fmt.Sprintf("[discord]\ntoken = %q\napi_url = %q\naccess = \"open\"\n", discordtest.Token, platform.URL))
	if err := platform.WaitConnected(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	platform.Say(place, ann, `pay {"to": "@everyone"}`)
	// said returns the bot's messages in the DM.
	said := func() (list []discordtest.Message) {
		for _, m := range platform.Seen(place, ann) {
			if m.Author.Bot {
				list = append(list, m)
			}
		}
		return list
	}
	gatewaytest.Await(t, "the question", func() bool { return len(said()) == 1 && len(said()[0].Components) > 2 })
	question := said()[0]
	if !strings.Contains(question.Content, "May I do this?") || !strings.Contains(question.Content, "@everyone") {
		t.Fatalf("the question: %q", question.Content)
	}
	if _, err := platform.Press(question, ann, "/deny 1"); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Await(t, "the answer, and who has given it", func() bool { // either may come first
		now := said()
		return len(now) == 2 && strings.Contains(now[0].Content, "Denied by Ann") && strings.Contains(now[1].Content, "refused")
	})
	if s.paid.Load() != 0 {
		t.Error("the tool was called")
	}
}

func TestChatInTheBrowserShowsTheQuestion(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "")
	say := func(text string) {
		request, err := http.NewRequest(http.MethodPost, s.Browser.URL+"/chat/shop/messages", strings.NewReader("text="+text))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", s.Browser.URL)
		s.Do(request)
	}
	say("pay+{}")
	gatewaytest.Await(t, "the question with its buttons", func() bool {
		page := s.Browser.Page("/chat/shop")
		return strings.Contains(page, "May I do this?") && strings.Contains(page, `value="/approve 1"`) && strings.Contains(page, `value="/deny 1"`)
	})
	say("yes")
	gatewaytest.Await(t, "the answer", func() bool { return strings.Contains(s.Browser.Page("/chat/shop"), "It says: paid") })
	if page := s.Browser.Page("/chat/shop"); strings.Contains(page, `value="/deny 1"`) || s.paid.Load() != 1 {
		t.Errorf("the question stays, or the tool was called %d times", s.paid.Load())
	}
}

// A run that waits for an answer can be cancelled, and the wait does not count as work.
func TestProgramCancelsARunThatAsks(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "")
	_, asked := s.send("api:a/messages", `{"text": "pay {}"}`)
	run := fmt.Sprint(asked["approvals"].([]any)[0].(map[string]any)["run"])
	status, ended := s.send("api:a/runs/"+run+"/cancel", "{}")
	if status != http.StatusOK || ended["status"] != "stopped" || s.paid.Load() != 0 {
		t.Fatalf("%d %v", status, ended)
	}
	if status, answer := s.send("api:a/approvals/1", `{"answer": "allow"}`); status != http.StatusConflict {
		t.Errorf("%d %v", status, answer)
	}
	if got := s.answerTo(asked["id"].(string)); !strings.Contains(got, `"stopped"`) {
		t.Errorf("the answer: %s", got)
	}
}
