package console_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/console"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/pairing"
	"parley/conversation/steps"
	"parley/pages/pagestest"
)

// No text of people, models, tools, platforms or logs becomes a script on any page.
func TestShownTextNeverBecomesScript(t *testing.T) {
	t.Parallel()
	hostile := pagestest.Hostile()
	all := strings.Join(hostile, "\n")
	d := newConsoleHarness(t, func(p *console.Deps) {
		for _, text := range hostile[:3] {
			p.Channels = append(p.Channels, conversation.Account{Channel: text, ID: text})
		}
		p.Servers = func() []console.ToolServer {
			return []console.ToolServer{{Name: all, State: all, Endpoint: all, LastError: all, LastErrorAt: time.Now(), LeftOut: hostile,
				Tools: []console.ServerTool{{Name: all, Offered: all, About: all}}}}
		}
		p.Facts = []console.Fact{{Name: hostile[0], Value: all}}
		for _, text := range hostile {
			p.Settings = append(p.Settings, console.Setting{Section: text, Key: text, Value: text, Origin: text})
		}
		p.Window = func(ctx context.Context, key conversation.Key) (console.Window, error) {
			c, err := p.Store.Active(ctx, key)
			return console.Window{Conversation: c.ID, Tools: hostile, Messages: []conversation.Message{
				{Role: conversation.Role(hostile[0]), Content: all, ToolCalls: []conversation.ToolCall{{Name: all, Arguments: all}}}}}, err
		}
	})
	paths := []string{"/console/?range=hour", "/console/sessions", "/console/deliveries", "/console/pairing", "/console/tools", "/console/configuration", "/console/log"}
	for n, text := range hostile {
		key, who := conversation.Key(fmt.Sprintf("telegram:%s:%d", text, n)), conversation.Sender{ID: text, Name: text}
		of := d.talk(key, who, text, text, func(r *conversation.Run) {
			r.Title, r.Model, r.Error, r.Status = text, text, text, conversation.StatusFailed
			r.Messages = append(r.Messages[:1:1],
				conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "c", Name: text, Arguments: text}}},
				conversation.Message{Role: conversation.RoleTool, ToolCallID: "c", ToolName: text, Content: text}, r.Messages[1])
			r.Messages[0].Sender, r.Messages[0].Images = who, []media.Image{{Name: text, MediaType: "image/png", Data: []byte("x")}}
			r.Steps = []steps.Step{{Kind: steps.Tool, Name: text, At: r.StartedAt, CallID: "c", Error: text}}
		})
		d.must(d.store.Mark(t.Context(), d.due(key)[0], conversation.MarkFailed, text))
		d.must(d.store.SetMetadata(t.Context(), key, "", metadata.Object(fmt.Sprintf(`{"note":%q}`, "x"))))
		d.must(bots.New(d.store).SetHealth(t.Context(), conversation.Account{Channel: text, ID: text}, text, text))
		_, err := bots.New(d.store).SetGroup(t.Context(), bots.Group{Bot: conversation.Account{Channel: text, ID: text}, ID: text, Name: text, State: bots.Member, ByName: text, Lacks: []string{text}})
		d.must(err)
		if n < 50 {
			_, _, err := pairing.New(d.store).Ask(t.Context(), conversation.Account{Channel: "telegram", ID: text}, text, text)
			d.must(err)
		}
		d.log.Error(text, "error", text, text, text)
		at, escaped := "/console/conversation/"+of.ID, url.QueryEscape(string(key))
		paths = append(paths, at, at+"/trace", at+"/window", "/console/session?key="+escaped, "/console/confirm?do=delete&key="+escaped,
			"/console/confirm?do=delete-conversation&id="+of.ID, "/console/search?q="+url.QueryEscape(text), "/console/sessions?text="+url.QueryEscape(text),
			"/console/confirm?do=revoke&channel="+url.QueryEscape(text)+"&user="+url.QueryEscape(text), "/console/log?q="+url.QueryEscape(text),
			"/console/sessions?done="+url.QueryEscape(text))
	}
	for _, path := range paths {
		for _, harm := range pagestest.Harm(d.browser.Page(path)) {
			t.Errorf("%s: %s", path, harm)
		}
	}
}
