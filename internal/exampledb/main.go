// Exampledb writes a small database with a believable history, through the
// same store that the gateway uses.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"parley/conversation"
	"parley/conversation/steps"
	"parley/llm"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: exampledb FILE")
		os.Exit(2)
	}
	if err := write(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "exampledb:", err)
		os.Exit(1)
	}
}

// write creates the database at path, replacing an old one.
func write(ctx context.Context, path string) error {
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	a := &author{counter: llm.NewCounter("")}
	store, err := conversation.Open(ctx, conversation.Config{Path: path, Now: func() time.Time { return a.now }})
	if err != nil {
		return err
	}
	a.store = store
	for _, s := range scenes() {
		a.now = s.at
		for _, e := range s.turns {
			if err := a.play(ctx, s, e); err != nil {
				return errors.Join(err, store.Close())
			}
		}
	}
	if err := store.Close(); err != nil {
		return err
	}
	return os.Remove(path + ".lock")
}

// author plays turns into a store.
type author struct {
	store   *conversation.Store
	counter *llm.Counter
	now     time.Time
	sources int
}

// play takes one turn the way that a message of a chat takes: accepted,
// answered, delivered.
func (a *author) play(ctx context.Context, s scene, e turn) error {
	a.now = a.now.Add(e.after)
	a.sources++
	in := conversation.Inbound{Key: s.key, SourceID: fmt.Sprint(a.sources), Address: s.address, Sender: e.sender, Group: s.group, Text: e.text, At: a.now}
	if _, err := a.store.Accept(ctx, nil, in); err != nil {
		return err
	}
	snapshot, err := a.store.Begin(ctx, s.key, 30_000)
	if err != nil {
		return err
	}
	started := a.now
	a.now = a.now.Add(4 * time.Second)
	run := conversation.Run{
		Key: s.key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: snapshot.Waiting[:1],
		Conversation: snapshot.Conversation, Title: s.title, Model: "gpt-5-mini", Rounds: 1, StartedAt: started,
		Replies: []conversation.Delivery{{Key: s.key, Address: s.address, Text: e.reply}},
	}
	if e.begin != "" {
		run.Kind, run.Effect = conversation.KindCommand, conversation.Effect{Archive: true, Title: e.begin}
	} else {
		run.Messages = a.messages(s, in, e)
		run.Steps, run.Rounds = stepsOf(run, snapshot, e)
		for _, step := range run.Steps {
			run.Prompt, run.Completion = run.Prompt+step.Prompt, run.Completion+step.Completion
		}
	}
	if _, err := a.store.Commit(ctx, run); err != nil {
		return err
	}
	due, err := a.store.Deliveries(ctx, conversation.DeliveryQuery{Key: s.key, Ready: true, Limit: 1})
	if err != nil {
		return err
	}
	due[0].Sent = []string{fmt.Sprint(9000 + a.sources)}
	return a.store.Mark(ctx, due[0], conversation.MarkSent, "")
}

func (a *author) messages(s scene, in conversation.Inbound, e turn) []conversation.Message {
	user := conversation.Message{Role: conversation.RoleUser, Content: in.Text, SourceID: in.SourceID, At: in.At}
	if s.group {
		user.Sender = e.sender
	}
	list := []conversation.Message{user}
	if e.tool != nil {
		list = append(list,
			conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{e.tool.call}},
			conversation.Message{Role: conversation.RoleTool, ToolCallID: e.tool.call.ID, ToolName: e.tool.call.Name, Content: e.tool.result})
	}
	list = append(list, conversation.Message{Role: conversation.RoleAssistant, Content: e.reply})
	for i := range list {
		list[i].Tokens = a.counter.Text(list[i].Content) + 4
	}
	return list
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
