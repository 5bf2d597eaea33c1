package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/config"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// opened returns the problems with which a gateway with this configuration does not start, each as a line.
func opened(t *testing.T, document string) string {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "config.toml")
	if err := os.WriteFile(path, []byte("database = \"test.db\"\n"+document), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), gateway.Options{ConfigPath: path, Getenv: func(string) string { return "" }, LogTo: io.Discard})
	if err == nil {
		g.Close()
		return ""
	}
	if problems := (config.Problems)(nil); !errors.As(err, &problems) {
		t.Fatalf("not a problem of the configuration: %v", err)
	}
	return strings.ReplaceAll(err.Error(), folder+"/", "")
}

// A window without room for a question is a problem with its numbers and its line, whichever key makes it small. What the words say is
// enough is enough.
func TestAWindowWithoutRoomIsAProblemAtTheStart(t *testing.T) {
	t.Parallel()
	const llm = "[llm]\nmodel = \"offline\"\n"
	long := "\"\"\"" + strings.Repeat("Never lie. ", 3000) + "\"\"\""
	for _, c := range []struct{ document, place string }{
		{llm + "[conversation]\nmax_tokens = %d\n", "config.toml:5: conversation.max_tokens: "},
		{llm + "[conversation]\nmax_tokens = %d\n[reminders]\nenabled = false\n[web_fetch]\nenabled = false\n", "config.toml:5: conversation.max_tokens: "},
		{llm + "max_output_tokens = 100\n[conversation]\nmax_tokens = %d\n", "config.toml:6: conversation.max_tokens: "},
		{llm + "[conversation]\nmax_tokens = %d\n[agent]\nsystem_prompt = " + long + "\n", "config.toml:5: conversation.max_tokens: "},
		{llm + "context_window = %d\n", "config.toml:4: llm.context_window: "},
		{llm + "[models.small]\nbase_url = \"http://127.0.0.1:1/v1\"\ncontext_window = %d\n", "config.toml:6: models.small.context_window: "},
		{llm + "[conversation]\nmax_tokens = %d\n[agents.a]\nsystem_prompt = \"Be brief.\"\n", "config.toml:5: conversation.max_tokens: "},
	} {
		got := opened(t, fmt.Sprintf(c.document, 501))
		if !strings.HasPrefix(got, c.place+"found 501, of which ") || strings.Contains(got, "\n") {
			t.Errorf("%s\n%s", c.document, got)
			continue
		}
		enough, err := strconv.Atoi(regexp.MustCompile(`at least (\d+)`).FindStringSubmatch(got)[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := opened(t, fmt.Sprintf(c.document, enough)); got != "" {
			t.Errorf("%s\nwith %d: %s", c.document, enough, got)
		}
		if got := opened(t, fmt.Sprintf(c.document, enough-10)); !strings.Contains(got, fmt.Sprintf("at least %d", enough)) {
			t.Errorf("%s\nwith %d: %s", c.document, enough-10, got)
		}
	}
}

// A gateway that starts answers: the least window that is allowed has room for a question.
func TestTheLeastWindowAnswers(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	document := fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n[conversation]\nmax_tokens = ", telegramtest.Token, platform.URL)
	enough := regexp.MustCompile(`at least (\d+)`).FindStringSubmatch(opened(t, "[llm]\nmodel = \"offline\"\n"+document+"501\n"))[1]
	gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: document + enough + "\n"})
	who := telegramtest.User{ID: 42, FirstName: "Ada"}
	for i, question := range []string{"Are you there?", strings.Repeat("Why is the sky blue at noon and red at night? ", 8)} {
		platform.Say(telegramtest.Private(who), who, question)
		gatewaytest.Await(t, "an answer", func() bool { return len(platform.SentTo(who.ID)) > i })
		if sent := platform.SentTo(who.ID)[i].Text; !strings.HasPrefix(sent, "echo: "+question[:10]) {
			t.Errorf("with max_tokens = %s, %q is answered with %q", enough, question, sent)
		}
	}
}
