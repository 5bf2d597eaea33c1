package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// example is a command of the documentation and its output.
type example struct {
	line          int
	command, kind string
	output        string
}

// tokenOnce is the command that the documentation has people type before the examples.
const tokenOnce = "AUTH=\"Authorization: Bearer $(bin/gateway token)\"\n"

var fenced = regexp.MustCompile("(?s)```sh\n(.*?)```\n```(json|text)\n(.*?)```\n")

func examplesOf(t *testing.T, path string) (all []example) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if commands := strings.Count(string(text), "```sh\n"); commands != len(fenced.FindAllIndex(text, -1)) {
		t.Errorf("%s has %d commands, some of them without what they say", path, commands)
	}
	if !strings.Contains(string(text), "\n"+tokenOnce) {
		t.Errorf("%s does not say %q", path, tokenOnce)
	}
	for _, at := range fenced.FindAllSubmatchIndex(text, -1) {
		part := func(n int) string { return string(text[at[2*n]:at[2*n+1]]) }
		all = append(all, example{1 + strings.Count(string(text[:at[0]]), "\n"), part(1), part(2), part(3)})
	}
	return all
}

// Every command of docs/api.md is run in order, and its output compared with the documented one.
func TestTheDocumentationIsTrue(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the examples of the documentation are not run: there is no %s here", program)
		}
	}
	g := startHTTP(t, "") // the gateway creates a token
	g.model.Reply(documentedModel)
	ids := map[string]string{} // from the documented ids to those of this run
	for _, e := range examplesOf(t, "../../docs/api.md") {
		command := strings.ReplaceAll(tokenOnce+e.command, "http://127.0.0.1:8787", g.url)
		command = strings.ReplaceAll(command, "bin/gateway", gatewaytest.Binary(t)+" -c "+g.gw.Config)
		for shown, real := range ids {
			command = strings.ReplaceAll(command, shown, real)
		}
		run := exec.CommandContext(t.Context(), "sh", "-c", command)
		said, err := run.Output()
		if err != nil {
			t.Fatalf("docs/api.md:%d: %v", e.line, err)
		}
		want, got := e.values(t, e.output), e.values(t, string(said))
		if diff := cmp.Diff(want, withDocumentedValues(want, got, ids)); diff != "" {
			t.Errorf("docs/api.md:%d: %s\nhas another output (-documented +found):\n%s\nall of it: %s", e.line, e.command, diff, said)
		}
	}
}

// values returns what is compared of an output: a JSON value, or lines that contain values.
func (e example) values(t *testing.T, text string) (value any) {
	if e.kind == "json" {
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Errorf("docs/api.md:%d: %v: %q", e.line, err, text)
		}
		return value
	}
	var lines []any
	for line := range strings.Lines(strings.TrimSpace(text)) {
		data, isData := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if isData && json.Unmarshal([]byte(data), &value) == nil {
			lines = append(lines, value)
			value = nil
			continue
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

var (
	aTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	anID  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$|^[a-z0-9]{26}$|^chatcmpl-[a-z0-9]{26}$`)
	made  = regexp.MustCompile(`/answers/[a-z0-9]{26}$`)
)

// withDocumentedValues returns got with the documented times, ids and durations in place of its
// own.
func withDocumentedValues(want, got any, ids map[string]string) any {
	switch got := got.(type) {
	case map[string]any:
		want, _ := want.(map[string]any)
		for name, value := range got {
			if shown, ok := want[name]; ok {
				got[name] = withDocumentedValues(shown, value, ids)
				if _, number := value.(float64); number && (strings.HasSuffix(name, "_ms") || name == "created") {
					got[name] = shown
				}
			}
		}
	case []any:
		want, _ := want.([]any)
		for i := range min(len(want), len(got)) {
			got[i] = withDocumentedValues(want[i], got[i], ids)
		}
	case string:
		want, _ := want.(string)
		switch {
		case want == "…": // stands for anything
			return want
		case aTime.MatchString(want) && aTime.MatchString(got), made.MatchString(want) && made.MatchString(got):
			return want
		case anID.MatchString(want) && anID.MatchString(got) && (ids[want] == "" || ids[want] == got):
			ids[want] = got
			return want
		}
	}
	return got
}

// documentedModel gives the answers that the documentation shows.
func documentedModel(c llmtest.Call) llmtest.Answer {
	if last := c.Messages[len(c.Messages)-1]; last.Role == "tool" {
		return llmtest.Answer{Text: "It is late.", Pieces: 1, Usage: &llm.Usage{Prompt: 640, Completion: 5}}
	}
	usage := &llm.Usage{Prompt: 600 + 20*len(c.Messages), Completion: 20}
	answers := map[string]string{
		"The login page answers 500 since yesterday. Where do I look first?":      "At the session store: it was moved yesterday.",
		"It was the session store, as you said. What do I write into the commit?": "\"Point the login page at the new session store\".",
		"What does the build lack?": "A header.",
		"Sum up what we did.":       "The login page failed because the session store had moved, and now points at the new one.",
		"Good morning!":             "Good morning, what can I do for you?",
	}
	if c.LastUser() == "What time is it?" {
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "current_time", Arguments: "{}"}}, Usage: usage}
	}
	answer, known := answers[c.LastUser()]
	if !known {
		answer = fmt.Sprintf("The documentation asks something new: %q", c.LastUser())
	}
	made := llmtest.Answer{Text: answer, Usage: usage}
	if c.LastUser() == "Sum up what we did." {
		made.Delay = time.Second // the documentation asks not to wait for it
	}
	return made
}
