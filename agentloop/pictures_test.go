package agentloop

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/storetest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// A picture that the model makes is kept with its answer and delivered with the reply. Later calls
// name it in words, since servers refuse pictures in answers.
func TestPicturesOfTheModelAreKeptAndSent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Vision = true })
	h.server.Script(llmtest.Answer{Text: "A cat.", Images: []llm.Image{
		{MediaType: "image/png", Data: []byte(png)}, {MediaType: "image/png", Data: []byte("<script>")},
	}}, llmtest.Answer{Images: []llm.Image{{MediaType: "image/png", Data: []byte(png)}}}, llmtest.Answer{Text: "yes"})
	h.ask(room, "draw a cat")
	h.ask(room, "another")
	h.ask(room, "nice?")
	if n := strings.Count(h.asked(), "[picture picture-1.png, made and shown to the user]"); n != 2 || strings.Contains(h.asked(), "<image/png>") {
		t.Errorf("the model was told of %d pictures:\n%s", n, h.asked())
	}
	if refused := h.server.Refusals(); len(refused) > 0 {
		t.Errorf("the server refused %q", refused)
	}
	c, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	page, err := h.store.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 10})
	if err != nil || len(page.Messages) != 6 {
		t.Fatalf("%d messages, %v", len(page.Messages), err)
	}
	for i, want := range []int{0, 1, 0, 1, 0, 0} {
		pictures := page.Messages[i].Images
		if len(pictures) != want {
			t.Errorf("message %d has the pictures %+v", i+1, pictures)
		}
		for _, picture := range pictures {
			if data, err := h.store.ImageData(t.Context(), picture); err != nil || string(data) != png {
				t.Errorf("the picture is kept as %d bytes, %v", len(data), err)
			}
		}
	}
}

// Pictures in the result of a tool are kept with it, even if the process dies right after. The model
// is shown them, and the reply delivers those that it names.
func TestPicturesOfToolsSurviveAKillAndAreShownToTheModel(t *testing.T) {
	t.Parallel()
	shot := func(context.Context, json.RawMessage) (tools.Result, error) {
		return tools.Result{Text: "two shots", Pictures: []media.Image{
			{Name: "front.png", Data: []byte(png)}, {Name: "back.png", Data: append([]byte(png), 0)}}}, nil
	}
	camera := func(p *Deps) {
		var err error
		p.Vision, p.Budget = true, 16000
		if p.Tools, err = tools.NewRegistry(tools.Tool{Name: "shoot", Parameters: json.RawMessage(`{"type":"object"}`), Call: shot}); err != nil {
			t.Error(err)
		}
	}
	front := "front-1a143c34.png" // a part of the name is made of its bytes
	copied := ""
	first := newHarness(t, camera)
	calls := 0
	first.server.Reply(func(llmtest.Call) llmtest.Answer {
		if calls++; calls == 1 {
			return llmtest.Answer{Text: "Like this?", Images: []llm.Image{{MediaType: "image/png", Data: []byte(png)}}, ToolCalls: []llm.ToolCall{{ID: "a", Name: "shoot"}}}
		}
		copied = copyAsKilled(t, first.store)
		return llmtest.Answer{Text: "done"}
	})
	first.ask(room, "shoot the house")
	first.end()

	h := newHarnessOn(t, storetest.Open(t, copied), camera)
	h.server.Script(llmtest.Answer{Text: "It is ![white](" + front + ")."}, llmtest.Answer{Text: "yes"})
	h.reply(room)
	asked := h.asked()
	if !strings.Contains(asked, "[picture "+front+": ") || strings.Count(asked, "<image/png>") != 2 || !strings.Contains(asked, "[picture picture-1.png, made and shown to the user]") {
		t.Errorf("the model was shown\n%s", asked)
	}
	h.said = 1
	h.ask(room, "sure?")
	if again := h.asked(); strings.Count(again, "<image/png>") != 2 {
		t.Errorf("later the model was shown\n%s", again)
	}
	if refused := h.server.Refusals(); len(refused) > 0 {
		t.Errorf("the server refused %q", refused)
	}
	c, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	page, err := h.store.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll})
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, m := range page.Messages {
		for _, picture := range m.Images {
			if data, err := h.store.ImageData(t.Context(), picture); err != nil || !strings.HasPrefix(string(data), png) {
				t.Errorf("%s is kept as %d bytes, %v", picture.Name, len(data), err)
			}
			kept++
		}
	}
	if kept != 3 {
		t.Errorf("%d pictures are kept", kept)
	}
	if diff := cmp.Diff([]string{"picture-1.png", front}, h.brought); diff != "" {
		t.Error(diff)
	}
}

// If the pictures of a tool exceed the limits of files, the model is told so.
func TestPicturesOfToolsObeyTheLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		var err error
		p.Vision, p.FileLimits = true, files.Limits{Inline: 1 << 20, MaxFile: 1 << 20, MaxSession: 10, MaxTotal: 1 << 20}
		shot := func(context.Context, json.RawMessage) (tools.Result, error) {
			return tools.Result{Text: "a shot", Pictures: []media.Image{{Name: "front.png", Data: []byte(png)}}}, nil
		}
		if p.Tools, err = tools.NewRegistry(tools.Tool{Name: "shoot", Parameters: json.RawMessage(`{"type":"object"}`), Call: shot}); err != nil {
			t.Error(err)
		}
	})
	h.server.Script(llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "shoot"}}}, llmtest.Answer{Text: "sorry"})
	h.ask(room, "shoot the house")
	if asked := h.asked(); !strings.Contains(asked, "[the pictures of this result are not kept, and can't be shown: the files of this chat have 0 bytes, and at most 10 bytes are kept]") ||
		strings.Contains(asked, "<image/png>") {
		t.Errorf("the model was shown\n%s", asked)
	}
}

// A picture of the model that exceeds the limits of files is not kept, and the user is told
// why. What else the answer has is shown.
func TestPicturesOfModelsObeyTheLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		p.FileLimits = files.Limits{Inline: 1 << 20, MaxFile: int64(len(png)), MaxSession: 1 << 20, MaxTotal: 1 << 20}
	})
	small, large := llm.Image{MediaType: "image/png", Data: []byte(png)}, llm.Image{MediaType: "image/png", Data: []byte(png + "more")}
	h.server.Script(llmtest.Answer{Text: "Here they are.", Images: []llm.Image{large, small}}, llmtest.Answer{Images: []llm.Image{large}})
	const why = "⚠️ The picture picture-1.png, which the model made, can't be kept: it has "
	if reply := h.ask(room, "draw two cats"); !strings.HasPrefix(reply, "Here they are.") || !strings.Contains(reply, why) {
		t.Errorf("the user reads %q", reply)
	}
	if diff := cmp.Diff([]string{"picture-2.png"}, h.brought); diff != "" {
		t.Error(diff)
	}
	if reply := h.ask(room, "draw a large cat"); !strings.HasPrefix(reply, why) {
		t.Errorf("the user reads %q", reply)
	}
}
