package llm

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// offlineName is the name of the built-in model in the configuration.
const offlineName = "offline"

// howToGetOne says how to get a real model.
const howToGetOne = "set `OPENAI_API_KEY`, or `[llm]` in config.toml, or start Ollama, and start me again"

// timeTool is the tool that the offline model calls, to show that tools work.
const timeTool = "current_time"

// Offline is the stand-in for a model, so that everything else can be tried without one. It
// says what it is and what it sees of the conversation, and calls a tool when it is
// asked for the time.
type Offline struct{}

// NewOffline returns the offline model.
func NewOffline() *Offline { return &Offline{} }

// Model returns "offline".
func (*Offline) Model() string { return offlineName }

// Complete answers at once. It fails only when ctx has ended.
func (o *Offline) Complete(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	began := time.Now()
	var view view
	view.read(req)
	resp := Response{FinishReason: "stop", Model: offlineName}
	if view.wantsTime() {
		resp.ToolCalls = []ToolCall{{ID: fmt.Sprintf("offline_%d", view.messages), Name: timeTool, Arguments: "{}"}}
		resp.FinishReason = "tool_calls"
	}
	out := &output{emit: emit, model: offlineName}
	if len(resp.ToolCalls) == 0 {
		for _, piece := range strings.SplitAfter(view.answer(), "\n") {
			if ctx.Err() != nil {
				break
			}
			out.write(piece)
		}
	}
	resp.Text = out.text()
	if ctx.Err() != nil {
		req.attempted(Attempt{Model: offlineName, At: began, Took: time.Since(began), FirstByte: out.firstByte(began), Err: context.Cause(ctx)})
		return Response{Text: resp.Text, Model: offlineName}, fmt.Errorf("model call ended early: %w", context.Cause(ctx))
	}
	req.attempted(Attempt{Model: offlineName, At: began, Took: time.Since(began), FirstByte: out.firstByte(began)})
	return resp, nil
}

// view is the offline model's view of a conversation.
type view struct {
	messages int      // number of messages without the system prompt
	said     []string // texts of the user, oldest first
	answered bool     // the assistant has answered before
	result   string   // result of the tool, if that is the last message
	hasTool  bool     // timeTool may be called
	last     string   // role of the last message
}

func (v *view) read(req Request) {
	for _, m := range req.Messages {
		v.result = ""
		switch m.Role {
		case "system", "developer":
			continue
		case "user":
			v.said = append(v.said, m.Content)
		case "assistant":
			v.answered = v.answered || len(m.ToolCalls) == 0
		case roleTool:
			v.result = m.Content
		}
		v.messages++
		v.last = m.Role
	}
	for _, t := range req.Tools {
		v.hasTool = v.hasTool || t.Name == timeTool
	}
}

// wantsTime reports whether the user asks for the time and the tool is offered.
func (v *view) wantsTime() bool {
	asked := regexp.MustCompile(`(?i)\b(what|what's|which|current|tell me)\b.{0,30}\b(time|date|day)\b|\btime is it\b`)
	return v.hasTool && v.last == "user" && asked.MatchString(clipText(v.said[len(v.said)-1]))
}

func (v *view) answer() string {
	switch {
	case v.last == roleTool:
		return "I called the tool `" + timeTool + "`, and it says:\n\n" + quote(v.result)
	case len(v.said) == 0:
		return "I am the offline model, a stand-in, and there is nothing to repeat yet. For a real one: " + howToGetOne + "."
	case !v.answered:
		return v.introduction()
	}
	return v.recall()
}

func (v *view) introduction() string {
	return "Hello! I am the **offline model**, a stand-in that comes with Parley. " +
		"I can't think, but everything around me works: this conversation is stored, and I see it as a real model would.\n\n" +
		"You wrote:\n\n" + quote(v.said[len(v.said)-1]) + "\n" +
		"Write on and I tell you what I remember, try `/help`, or ask me what time it is.\n\n" +
		"To get a real model: " + howToGetOne + "."
}

// recall repeats the last three messages of the user.
func (v *view) recall() string {
	recent := v.said[max(0, len(v.said)-3):]
	var sb strings.Builder
	fmt.Fprintf(&sb, "I remember %s of this conversation, %d of them yours. ", count(v.messages, "message"), len(v.said))
	if len(recent) == 1 {
		sb.WriteString("You wrote:\n\n")
	} else {
		fmt.Fprintf(&sb, "Your last %d:\n\n", len(recent))
	}
	for i, text := range recent {
		if i > 0 {
			sb.WriteString("\n")
		}
		sb.WriteString(quote(text))
	}
	return sb.String() + "\n(Offline model. For a real one: " + howToGetOne + ".)"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// quote returns a shortened text as a quotation in markdown, with a newline at its end.
func quote(text string) string {
	text = strings.TrimSpace(clipText(text))
	if text == "" {
		text = emptyText
	}
	return "> " + strings.ReplaceAll(text, "\n", "\n> ") + "\n"
}

// clipText returns the beginning of a text of any length and any bytes.
func clipText(text string) string {
	const limit = 300 // runes
	if utf8.RuneCountInString(text[:min(len(text), 4*limit)]) <= limit && len(text) <= 4*limit {
		return clean(text)
	}
	runes := []rune(clean(text[:min(len(text), 4*limit)]))
	return string(runes[:min(len(runes), limit)]) + "..."
}
