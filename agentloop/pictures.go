package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/llm"
)

// said returns the model's message, with the pictures that it has made and that may be kept.
func (g *generation) said(ctx context.Context, response llm.Response) window.Entry {
	m := conversation.Message{Role: conversation.RoleAssistant, Content: response.Text, Reasoning: response.Reasoning}
	for _, call := range response.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, conversation.ToolCall(call))
	}
	for _, image := range response.Images {
		g.answer.pictures++
		extension := strings.Replace(strings.TrimPrefix(image.MediaType, "image/"), "jpeg", "jpg", 1)
		name := fmt.Sprintf("picture-%d.%s", g.answer.pictures, extension)
		m.Images = append(m.Images, media.Image{Name: name, MediaType: image.MediaType, Size: len(image.Data), Data: image.Data})
	}
	var refused []string
	if m.Images, refused = g.keepable(ctx, m.Images); m.Content == "" && len(m.Images) == 0 && len(m.ToolCalls) == 0 {
		m.Content = strings.Join(refused, "\n") // the answer has nothing else to say
	} else {
		g.answer.warnings = append(g.answer.warnings, refused...)
	}
	m.Tokens = g.loop.router.tokensOf(m)
	return window.EntryOf(m)
}

// keepable returns the pictures of an answer that the limits of [files] let it keep, and why
// each other one is not kept, in words for the user.
func (g *generation) keepable(ctx context.Context, list []media.Image) (kept []media.Image, refused []string) {
	for _, image := range list {
		err := g.checkPictures(ctx, append(kept, image))
		var beyond *files.RefusedError
		switch {
		case errors.As(err, &beyond):
			g.deps.Log.Warn("picture of the model not kept", "session", g.loop.key, "bytes", image.Size, "error", err)
			refused = append(refused, fmt.Sprintf("⚠️ The picture %s, which the model made, can't be kept: %s.", image.Name, beyond.Words))
			continue
		case err != nil:
			g.deps.Log.Warn("file limits for pictures of the model not read", "session", g.loop.key, "error", err)
		}
		kept = append(kept, image)
	}
	return kept, refused
}

// seen returns a tool's result with its pictures as the model sees them.
func (g *generation) seen(ctx context.Context, m conversation.Message) window.Entry {
	if !g.setup.model.Vision || len(m.Images) == 0 {
		return window.EntryOf(m)
	}
	loaded := make([]media.Image, len(m.Images))
	for i, image := range m.Images {
		loaded[i] = g.loop.loadOrMark(ctx, image)
	}
	return window.SeenEntry(m, loaded)
}

// withinLimits removes the pictures from a tool's result if they exceed the limits of [files],
// and tells the model why.
func (g *generation) withinLimits(ctx context.Context, m conversation.Message) conversation.Message {
	err := g.checkPictures(ctx, m.Images)
	var refused *files.RefusedError
	if !errors.As(err, &refused) {
		if err != nil {
			g.deps.Log.Warn("file limits for pictures of a tool not read", "session", g.loop.key, "error", err)
		}
		return m
	}
	m.Images = nil
	m.Content += fmt.Sprintf("\n[the pictures of this result are not kept, and can't be shown: %s]", refused.Words)
	m.Tokens = g.loop.router.tokensOf(m)
	return m
}

// checkPictures returns a *files.RefusedError if pictures exceed the limits of [files],
// together with those that the run has so far.
func (g *generation) checkPictures(ctx context.Context, list []media.Image) error {
	if len(list) == 0 {
		return nil
	}
	limits, all := g.deps.FileLimits, int64(0)
	for _, m := range g.answer.messages {
		all += m.PictureBytes()
	}
	for _, image := range list {
		size := int64(len(image.Data))
		if all += size; size > limits.MaxFile {
			_, err := g.loop.router.kept.Room(ctx, g.loop.key, limits, size)
			return err
		}
	}
	limits.MaxFile = max(limits.MaxFile, all)
	_, err := g.loop.router.kept.Room(ctx, g.loop.key, limits, all)
	return err
}
