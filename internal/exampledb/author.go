package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/steps"
	"parley/conversation/summary"
	"parley/llm"
)

// author plays turns into a store.
type author struct {
	store   *conversation.Store
	counter *llm.Counter
	now     time.Time
	sources int
}

// stage plays a scene.
func (a *author) stage(ctx context.Context, s scene) error {
	a.now = s.at
	if s.metadata != "" {
		if err := a.store.SetMetadata(ctx, s.key, "", s.metadata); err != nil {
			return err
		}
	}
	if s.instructions != "" {
		system := conversation.Message{Role: conversation.RoleSystem, Content: s.instructions, Tokens: a.counter.Text(s.instructions) + 4}
		if _, err := a.store.Append(ctx, s.key, "", system); err != nil {
			return err
		}
	}
	for _, e := range s.turns {
		if err := a.play(ctx, s, e); err != nil {
			return err
		}
	}
	return a.describe(ctx, s)
}

// play takes one turn the way that a message of a chat takes: accepted,
// answered, delivered. What is said aside is only accepted.
func (a *author) play(ctx context.Context, s scene, e turn) error {
	a.now = a.now.Add(e.after)
	a.sources++
	in := conversation.Inbound{
		Key: s.key, SourceID: fmt.Sprint(a.sources), Address: s.address, Place: s.place, Sender: e.sender, Group: s.group, Text: e.text, At: a.now,
		Aside: e.aside, Keep: s.address == "", Options: conversation.RunOptions{Metadata: e.metadata},
	}
	if s.group {
		in.Talk.Most = 20
	}
	for _, f := range e.files {
		in.Attachments = append(in.Attachments, media.Attachment{Name: f.name, MediaType: f.mediaType, Size: int64(len(f.data)), Ref: f.name})
	}
	if _, err := a.store.Accept(ctx, nil, in); err != nil || e.aside {
		return err
	}
	snapshot, err := a.store.Begin(ctx, s.key, 30_000)
	if err != nil {
		return err
	}
	in = snapshot.Waiting[0]
	started := a.now
	a.now = a.now.Add(4 * time.Second)
	run := conversation.Run{
		Key: s.key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: snapshot.Waiting[:1],
		Conversation: snapshot.Conversation, Title: s.title, Model: "gpt-5-mini", Rounds: 1, StartedAt: started,
		Replies: []conversation.Delivery{{Key: s.key, Address: s.address, Text: e.reply, Keep: in.Keep}},
		Events:  e.events, Instructions: snapshot.Conversation.State.Instructions,
	}
	if e.begin != "" {
		run.Kind, run.Effect = conversation.KindCommand, conversation.Effect{Archive: true, Title: e.begin}
	} else {
		if run.Messages, err = a.messages(ctx, s, in, e); err != nil {
			return err
		}
		run.Steps, run.Rounds = stepsOf(run, snapshot, e)
		for _, step := range run.Steps {
			run.Prompt, run.Completion = run.Prompt+step.Prompt, run.Completion+step.Completion
		}
	}
	if _, err := a.store.Commit(ctx, run); err != nil || in.Keep {
		return err
	}
	due, err := a.store.Deliveries(ctx, conversation.DeliveryQuery{Key: s.key, Ready: true, Limit: 1})
	if err != nil {
		return err
	}
	due[0].Sent = []string{fmt.Sprint(9000 + a.sources)}
	return a.store.Mark(ctx, due[0], conversation.MarkSent, "")
}

func (a *author) messages(ctx context.Context, s scene, in conversation.Inbound, e turn) ([]conversation.Message, error) {
	user := conversation.Message{Role: conversation.RoleUser, Content: in.Text, SourceID: in.SourceID, At: in.At, Metadata: e.metadata}
	if s.group {
		user.Sender = e.sender
	}
	for n, f := range e.files {
		if err := a.enclose(ctx, &user, in, n, f); err != nil {
			return nil, err
		}
	}
	list := []conversation.Message{user}
	if e.tool != nil {
		list = append(list,
			conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{e.tool.call}},
			conversation.Message{Role: conversation.RoleTool, ToolCallID: e.tool.call.ID, ToolName: e.tool.call.Name, Content: e.tool.result})
	}
	list = append(list, conversation.Message{Role: conversation.RoleAssistant, Content: e.reply, Metadata: e.metadata})
	for i := range list {
		list[i].Tokens = a.counter.Text(list[i].Content) + 4
	}
	return list, nil
}

// enclose keeps a file of an inbound and adds it to the message: a picture, or a text with
// its lines.
func (a *author) enclose(ctx context.Context, m *conversation.Message, in conversation.Inbound, n int, f file) error {
	kept, err := files.New(a.store).Keep(ctx, files.Incoming{
		Session: in.Key, Inbound: in.ID, N: n, Attachment: in.Attachments[n],
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.data)), nil },
	}, files.DefaultLimits())
	if err != nil {
		return err
	}
	if media.IsImageType(f.mediaType) {
		m.Images = append(m.Images, media.Image{ID: kept.ID, Name: f.name, MediaType: f.mediaType, Size: len(f.data)})
		return nil
	}
	shown := media.File{ID: kept.ID, Name: f.name, MediaType: f.mediaType, Size: kept.Size}
	shown.Lines.From = len(m.Content) + 1
	m.Content += "\n[file " + f.name + "]\n"
	shown.Body.From = len(m.Content)
	m.Content += strings.TrimSuffix(string(f.data), "\n")
	shown.Body.To = len(m.Content)
	m.Content += "\n[end of file " + f.name + "]"
	shown.Lines.To = len(m.Content)
	m.Files = append(m.Files, shown)
	return nil
}

// describe stores what is kept of a scene's conversation beside its messages: metadata, and the
// summary of its first turn.
func (a *author) describe(ctx context.Context, s scene) error {
	c, err := a.store.Active(ctx, s.key)
	if err == nil && s.phase != "" {
		err = a.store.SetMetadata(ctx, s.key, c.ID, s.phase)
	}
	if err != nil || s.summary == "" {
		return err
	}
	summaries := summary.New(a.store)
	stretch, err := summaries.Stretch(ctx, c.ID, c.Messages+1, 1)
	if err == nil {
		_, err = summaries.Add(ctx, stretch, s.summary, a.counter.Text(s.summary))
	}
	return err
}

// stepsOf returns the steps of a run: a call of the model, or two with a tool between them.
func stepsOf(run conversation.Run, snapshot conversation.Snapshot, e turn) (list []steps.Step, rounds int) {
	const prompt = 420 // tokens of the system prompt and the tools
	shown, window := snapshot.Conversation.Messages+1, prompt+int(snapshot.Conversation.Tokens)+run.Messages[0].Tokens
	call := func(after, took time.Duration, completion int) {
		rounds++
		list = append(list, steps.Step{
			Kind: steps.Model, Name: run.Model, At: run.StartedAt.Add(after), Took: took, FirstByte: took / 4,
			Prompt: window, Completion: completion, Shown: shown, Window: window,
		})
	}
	if e.tool == nil {
		call(20*time.Millisecond, 3900*time.Millisecond, run.Messages[1].Tokens)
		return list, rounds
	}
	call(20*time.Millisecond, 1400*time.Millisecond, 24)
	list = append(list, steps.Step{
		Kind: steps.Tool, Name: e.tool.call.Name, At: run.StartedAt.Add(1425 * time.Millisecond), Took: 2 * time.Millisecond, CallID: e.tool.call.ID,
	})
	shown, window = shown+2, window+60
	call(1430*time.Millisecond, 2400*time.Millisecond, run.Messages[3].Tokens)
	return list, rounds
}
