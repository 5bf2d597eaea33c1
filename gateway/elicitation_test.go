package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/tools/mcp/mcptest"
)

// telegramGateway is a gateway with Telegram and a tool server that asks people.
type telegramGateway struct {
	*serverGateway
	platform *telegramtest.Server
	ada      telegramtest.User
}

func startTelegramGateway(t *testing.T, sections ...string) *telegramGateway {
	platform := telegramtest.New(t)
	telegram := fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)
	s := &telegramGateway{serverGateway: startServerGateway(t, "2025", "", append(sections, telegram)...), platform: platform, ada: telegramtest.User{ID: 42, FirstName: "Ada"}}
	s.Model.Reply(calls)
	return s
}

// await waits for a message of the bot that contains a text, and returns the last one.
func (s *telegramGateway) await(text string) (last telegramtest.Message) {
	s.t.Helper()
	gatewaytest.Await(s.t, "a message with "+text, func() bool {
		sent := s.platform.SentTo(42)
		if len(sent) > 0 {
			last = sent[len(sent)-1]
		}
		return strings.Contains(last.Text, text)
	})
	return last
}

func (s *telegramGateway) say(text string) {
	s.platform.Say(telegramtest.Private(s.ada), s.ada, text)
}

// A server's question is answered field by field: choices by buttons, other fields in words. The only run
// slot is free for another session meanwhile.
func TestServerAsksInTheChat(t *testing.T) {
	t.Parallel()
	s := startTelegramGateway(t, "[agent]\nmax_concurrent_runs = 1\n")
	s.say(`shop_ask {"id": "1"}`)
	asked := s.await("The tool server shop asks")
	for _, want := range []string{"Which \\u0060one\\u0060?", "Colour", "Crimson, Navy", "/answer 1 1", "10 minutes", "Never enter a password"} {
		if !strings.Contains(asked.Text, want) {
			t.Errorf("the question lacks %q: %s", want, asked.Text)
		}
	}
	if got := s.ask("other", "shop_look {}"); got != "It says: did look" {
		t.Errorf("another session gets %q", got)
	}
	s.platform.Press(s.ada, asked.ID, "Navy")
	size := s.await("a whole number from 1 to 9")
	if slices.ContainsFunc(size.Buttons, func(b telegramtest.Button) bool { return b.Text == "Send" }) {
		t.Error("the answers can be sent although one is missing")
	}
	s.say("12")
	s.await("size takes a whole number from 1 to 9")
	s.say("/approve 1")
	s.await("It still needs: size")
	s.say("5")
	ready := s.await("1. Colour: Navy")
	s.platform.Press(s.ada, ready.ID, "Send")
	s.await(`It says: accept {"colour":"blue","size":5}`)
	if done := mcptest.Lines(s.folder, "effects"); !slices.Equal(done, []string{"ask 1", "look", "asked 1"}) {
		t.Errorf("the server has done %v", done)
	}
}

func TestAnswersOfPeopleReachTheServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, say, told, result string }{
		{"form", "/deny 1", "🚫 Declined by Ada", "decline null"},
		{"form", "/deny 1 cancel", "🚫 Dismissed by Ada", "cancel null"},
		{"confirm", "yes", "✅ Accepted by Ada", "accept null"},
		{"confirm", "no", "🚫 Declined by Ada", "decline null"},
		{"url", "/approve", "✅ Accepted by Ada", "accept null"},
	} {
		t.Run(tt.kind+" "+tt.say, func(t *testing.T) {
			t.Parallel()
			s := startTelegramGateway(t)
			s.say(fmt.Sprintf(`shop_ask {"kind": %q}`, tt.kind))
			asked := s.await("The tool server shop asks")
			if tt.kind == "url" && !strings.Contains(asked.Text, "shop.example/sign-in") {
				t.Errorf("the link is not shown: %s", asked.Text)
			}
			s.say(tt.say)
			s.await("It says: " + tt.result)
			if !slices.ContainsFunc(s.platform.SentTo(42), func(m telegramtest.Message) bool { return strings.Contains(m.Text, tt.told) }) {
				t.Errorf("the chat: %+v", s.platform.SentTo(42))
			}
		})
	}
}

// A question that can't be shown is declined at once.
func TestQuestionOfUnknownKindIsDeclined(t *testing.T) {
	t.Parallel()
	s := startServerGateway(t, "2025", "")
	s.Model.Reply(calls)
	if got := s.ask("a", `shop_ask {"kind": "nested"}`); !strings.Contains(got, "nested properties") && !strings.Contains(got, "decline") {
		t.Errorf("the answer: %q", got)
	}
}

func TestQuestionOfAServerExpires(t *testing.T) {
	t.Parallel()
	s := startTelegramGateway(t, "[tools]\napprove_timeout = \"1s\"\n")
	s.say("shop_ask {}")
	s.await("It says: cancel null")
	if sent := s.platform.SentTo(42); !strings.Contains(sent[len(sent)-2].Text, "Nobody answered the question of the server shop") {
		t.Errorf("the chat: %+v", sent)
	}
}

// A /stop while a server waits for an answer ends the server's call.
func TestStopEndsTheCallOfAServerThatAsks(t *testing.T) {
	t.Parallel()
	s := startTelegramGateway(t)
	s.say(`shop_ask {"id": "1"}`)
	s.await("The tool server shop asks")
	s.say("/stop")
	s.await("Stopped.")
	gatewaytest.Await(t, "the end of the call", func() bool { // the server is told that nobody answers
		return slices.Equal(mcptest.Lines(s.folder, "effects"), []string{"ask 1", "asked 1"})
	})
	s.say("shop_look {}")
	s.await("It says: did look")
}

// The operator can't archive a conversation by a command while a server keeps a call open there, since the gateway has the session's
// lock. The command says why, and what ends it.
func TestCommandSaysThatAServerKeepsTheSession(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the binary")
	}
	t.Parallel()
	s := startTelegramGateway(t)
	s.say(`shop_ask {"id": "1"}`)
	s.await("The tool server shop asks")
	p := s.Gateway.Run(nil, "sessions", "archive", "telegram:chat:42")
	p.MustExit(1)
	if said := p.Stderr.String(); !strings.Contains(said, "the tool server shop waits for an answer there (question 1)") {
		t.Errorf("the command says %s", said)
	}
	s.say("/stop")
	s.await("Stopped.")
	s.Gateway.MustRun("sessions", "archive", "telegram:chat:42")
}

// A program reads the form of a question, and answers all fields at once.
func TestProgramAnswersAServersForm(t *testing.T) {
	t.Parallel()
	s := startApprovalGateway(t, "approvers = [\"operator\"]\n"+server(t, "shop", "plain", t.TempDir(), ""))
	(&serverGateway{Gateway: s.Gateway, Browser: s.Browser, t: t}).awaitTools("shop")
	status, asked := s.send("api:a/messages", `{"text": "shop_choose {}"}`)
	list, _ := asked["approvals"].([]any)
	if status != http.StatusAccepted || len(list) != 1 || !strings.Contains(fmt.Sprint(list), "one_of") {
		t.Fatalf("%d %v", status, asked)
	}
	for body, want := range map[string]string{
		`{"answer": "allow"}`: "must answer colour",
		`{"answer": "allow", "content": {"colour": "green"}}`:   "one of red, blue",
		`{"answer": "allow", "content": {"password": "green"}}`: "no field",
	} {
		if status, answer := s.send("api:a/approvals/1", body); status != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(answer["detail"]), want) {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if page := s.Browser.Page("/console/tools"); !strings.Contains(page, "Which colour?") {
		t.Errorf("the console does not show the question: %s", page)
	}
	if status, answer := s.send("api:a/approvals/1", `{"answer": "allow", "content": {"colour": "blue"}}`); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	if got := s.answerTo(asked["id"].(string)); !strings.Contains(got, "It says: choosing accept blue") {
		t.Errorf("the answer: %s", got)
	}
}

// answerTo waits for the answer to a message.
func (s *approvalGateway) answerTo(id string) string {
	s.t.Helper()
	request, err := http.NewRequest(http.MethodGet, s.Browser.URL+"/api/v1/sessions/api:a/answers/"+id, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Prefer", "wait=60")
	_, text, _ := s.Do(request)
	return text
}

// A tool that its server changes is asked about again: after it was allowed for the session, and between a question and its
// answer. The answer to the old question does not make the call.
func TestChangedToolIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	s := startTelegramGateway(t, "[tools]\nask = [\"shop_pay\"]\napprove_remember = true\n")
	for _, answer := range []string{"/approve 1 always", ""} { // the second call needs no answer any more
		s.say("shop_pay {}")
		if answer != "" {
			s.await("May I do this?")
			s.say(answer)
		}
		s.await("It says: did pay")
		s.say("/new")
		s.await("new conversation")
	}
	s.say("shop_grow {}")
	s.await("It says: grown")
	s.say(`shop_pay {"id": "changed"}`)
	asked := s.await("May I do this?").Text
	for _, want := range []string{"Its server has changed this tool since it was allowed", "the description was For tests. and is For more tests.", "parameter to added", `"id": "changed"`, "/approve 2 always"} {
		if !strings.Contains(asked, want) {
			t.Errorf("the question lacks %q: %s", want, asked)
		}
	}
	s.say("/approve 2 always")
	s.await("It says: did pay more")
	s.say(`shop_pay {"id": "again"}`) // allowed as it is now
	s.await("It says: did pay more")
	s.say("/approvals revoke all")
	s.await("is asked about again")
	s.say(`shop_pay {"id": "between"}`)
	s.await("May I do this?")
	if got := s.ask("other", "shop_shrink {}"); got != "It says: shrunk" {
		t.Errorf("the other session gets %q", got)
	}
	s.say("yes")
	s.await("the description was For more tests. and is For tests.")
	if done := mcptest.Lines(s.folder, "effects"); !slices.Equal(done, []string{"pay", "pay", "pay more changed", "pay more again"}) {
		t.Errorf("before the second answer, the server has done %v", done)
	}
	s.say("/deny")
	s.await("It says: error: not run: the call was refused")
	if done := mcptest.Lines(s.folder, "effects"); len(done) != 4 {
		t.Errorf("the server has done %v", done)
	}
}
