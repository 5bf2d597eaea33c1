package llm_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

func env(key string) func(string) string {
	return func(name string) string {
		if name == "OPENAI_API_KEY" {
			return key
		}
		return ""
	}
}

func mustChoose(t *testing.T, cfg llm.Config, key string, probes ...string) (llm.Model, llm.Choice) {
	t.Helper()
	model, choice, err := llm.Choose(t.Context(), cfg, env(key), probes, nil)
	if err != nil {
		t.Fatalf("Choose: %v", err)
	}
	if model.Model() != choice.Model {
		t.Errorf("the model is %q, the choice says %q", model.Model(), choice.Model)
	}
	return model, choice
}

// closedAddress returns an address at which no server listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String() + "/v1"
}

func TestChoiceOrder(t *testing.T) {
	t.Parallel()
	local := llmtest.New(t)
	local.Models("nomic-embed-text", "llama3.2:latest", "qwen3")
	host := strings.TrimSuffix(strings.TrimPrefix(local.URL(), "http://"), "/v1")
	for name, test := range map[string]struct {
		cfg    llm.Config
		key    string
		probes []string
		want   string
	}{
		"nothing anywhere": {llm.Config{}, "", []string{closedAddress(t)}, "Model: offline, a built-in stand-in (nothing else found)."},
		"offline by name":  {llm.Config{Model: "offline", BaseURL: local.URL()}, "k", []string{local.URL()}, "Model: offline, a built-in stand-in ([llm])."},
		"config before all": {llm.Config{BaseURL: "https://openrouter.ai/api/v1", Model: "x/y", APIKey: "a"}, "k", []string{local.URL()},
			"Model: x/y at openrouter.ai ([llm])"},
		"only a model":         {llm.Config{Model: "gpt-5"}, "k", nil, "Model: gpt-5 at api.openai.com ([llm])"},
		"only a key":           {llm.Config{APIKey: "a"}, "", nil, "Model: gpt-5-mini at api.openai.com ([llm])"},
		"OpenAI without model": {llm.Config{BaseURL: "https://api.openai.com/v1/", APIKey: "a"}, "", nil, "Model: gpt-5-mini at api.openai.com ([llm])"},
		"server without model": {llm.Config{BaseURL: local.URL()}, "", nil, "Model: llama3.2:latest at " + host + " ([llm])"},
		"model without server": {llm.Config{Model: "qwen3"}, "", []string{closedAddress(t), local.URL()}, "Model: qwen3 at " + host + " ([llm])"},
		"model by short name":  {llm.Config{Model: "llama3.2"}, "", []string{local.URL()}, "Model: llama3.2:latest at " + host + " ([llm])"},
		"environment":          {llm.Config{}, "k", []string{local.URL()}, "Model: gpt-5-mini at api.openai.com (OPENAI_API_KEY)"},
		"key in config":        {llm.Config{APIKey: "k"}, "other", []string{local.URL()}, "Model: gpt-5-mini at api.openai.com ([llm])"},
		"local server":         {llm.Config{}, "", []string{closedAddress(t), local.URL()}, "Model: llama3.2:latest at " + host + " (found on its usual port)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, choice := mustChoose(t, test.cfg, test.key, test.probes...)
			if line := choice.Line(); !strings.HasPrefix(line, test.want) {
				t.Errorf("line %q, want %q", line, test.want)
			}
			if strings.Contains(choice.Line(), "\n") {
				t.Errorf("more than a line: %q", choice.Line())
			}
		})
	}
}

func TestChosenModelAnswers(t *testing.T) {
	t.Parallel()
	local := llmtest.New(t)
	local.RequireKey("from-the-file")
	cfg := llm.Config{BaseURL: local.URL(), Model: "any", APIKey: "from-the-file"}
	model, _ := mustChoose(t, cfg, "from-the-environment")
	if resp, err := model.Complete(t.Context(), ask("hello"), nil); err != nil || resp.Text != "echo: hello" {
		t.Errorf("answer %q, error %v", resp.Text, err)
	}
}

func TestKeyOfTheEnvironmentGoesToOpenAIAlone(t *testing.T) {
	t.Parallel()
	local := llmtest.New(t)
	model, _ := mustChoose(t, llm.Config{BaseURL: local.URL(), Model: "any"}, "sk-openai")
	if _, err := model.Complete(t.Context(), ask("hello"), nil); err != nil {
		t.Fatal(err)
	}
	if sent := local.Calls()[0].Header.Get("Authorization"); strings.Contains(sent, "sk-openai") {
		t.Errorf("another server was sent OpenAI's key: %q", sent)
	}
}

func TestChoiceErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	empty := llmtest.New(t)
	empty.Models("text-embedding-3-small")
	locked := llmtest.New(t)
	locked.RequireKey("other")
	for name, test := range map[string]struct {
		cfg  llm.Config
		want string
	}{
		"model without a key":      {llm.Config{Model: "gpt-5"}, "OPENAI_API_KEY"},
		"nobody there":             {llm.Config{BaseURL: closedAddress(t)}, "connection refused"},
		"no model there":           {llm.Config{BaseURL: empty.URL()}, "lists none that can chat"},
		"wrong key":                {llm.Config{BaseURL: locked.URL(), APIKey: "sk-secret-key"}, "status 401"},
		"no address":               {llm.Config{BaseURL: "localhost:11434/v1", Model: "x"}, "base_url"},
		"address with a password":  {llm.Config{BaseURL: "http://me:sk-secret-key@[::1/v1"}, "base_url"},
		"password, and nobody":     {llm.Config{BaseURL: strings.Replace(closedAddress(t), "//", "//me:sk-secret-key@", 1)}, "connection refused"},
		"address without a server": {llm.Config{BaseURL: "http:///v1", Model: "x"}, "base_url"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := llm.Choose(t.Context(), test.cfg, env(""), nil, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that speaks of %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "sk-secret-key") {
				t.Errorf("the key is told: %v", err)
			}
		})
	}
}

// Another program at a usual port is not taken for a model, and does not delay the start.
func TestProbesSkipServersWithoutModels(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>Jenkins</html>"))
	}))
	t.Cleanup(site.Close)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	local := llmtest.New(t)
	local.ContextWindow(32_768)
	_, choice := mustChoose(t, llm.Config{}, "", site.URL+"/v1", "http://"+mute.Addr().String()+"/v1", local.URL())
	if choice.Model != "test-model" {
		t.Errorf("chosen %q, want test-model", choice.Model)
	}
	if choice.ContextWindow != 32_768 {
		t.Errorf("window of %d tokens, want what the server says", choice.ContextWindow)
	}
}
