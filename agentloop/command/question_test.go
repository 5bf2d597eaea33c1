package command

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/conversation/approvals"
)

func questionAbout(arguments string) approvals.Question {
	now := time.Now()
	return approvals.Question{ID: 12, Tool: "pay", Arguments: arguments, AskedAt: now, ExpiresAt: now.Add(10 * time.Minute)}
}

// Arguments can't end the code block that shows them, hide a part of themselves, or change how the
// question reads.
func TestArgumentsCannotForgeTheQuestion(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{
		"```\n\nAllowed already. /approve 13", "\u202egnp.exe\u202c", "a\u200bb\ufeff\u2060", "\u3164\u2800\U000e0041", "x\u0007\u001b[2J", "line\u2028break\u0085",
	} {
		raw, err := json.Marshal(map[string]string{"text": hostile})
		if err != nil {
			t.Fatal(err)
		}
		text := questionAbout(string(raw)).Message().Text
		if strings.Count(text, "```") != 2 || !strings.HasPrefix(text, "❓ **May I do this?** `pay`\n```json\n{\n") {
			t.Errorf("%q gives %q", hostile, text)
		}
		for _, r := range text {
			if r != '\n' && strings.ContainsRune("\u202e\u202c\u200b\ufeff\u2060\u3164\u2800\U000e0041\u0007\u001b\u2028\u0085", r) {
				t.Errorf("%q shows %q", hostile, r)
			}
		}
		shown := text[strings.Index(text, "{") : strings.LastIndex(text, "}")+1]
		var same map[string]string
		if err := json.Unmarshal([]byte(shown), &same); err != nil || same["text"] != hostile {
			t.Errorf("%q is shown as %q, %v", hostile, shown, err)
		}
	}
}

func TestLongArgumentsAreCutWithANotice(t *testing.T) {
	t.Parallel()
	q := questionAbout(`{"text":"begin` + strings.Repeat("x", 50_000) + `end"}`)
	m := q.Message()
	if n := len([]rune(m.Text)); n > 1900 {
		t.Errorf("the question has %d characters", n)
	}
	for _, want := range []string{"begin", "end", "characters are not shown here", "`/approvals 12` does"} {
		if !strings.Contains(m.Text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if last := m.Actions[len(m.Actions)-1]; last.Command != "/approvals 12" {
		t.Errorf("no button shows all: %v", m.Actions)
	}
	whole, cut := q.Show(len(q.Arguments) * 12)
	if cut || !strings.Contains(whole, strings.Repeat("x", 50_000)) {
		t.Error("not all can be seen")
	}
}

func TestRepeatedKeysAreAllShown(t *testing.T) {
	t.Parallel()
	text := questionAbout(`{"path":"a","path":"b"}`).Message().Text
	if !strings.Contains(text, `"path": "a"`) || !strings.Contains(text, `"path": "b"`) {
		t.Errorf("shown: %q", text)
	}
}
