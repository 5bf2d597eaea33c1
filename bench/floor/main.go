// Floor is the least that a bot can do, to compare the gateway with: it polls,
// asks the model, calls the tools that the model asks for, and sends, with the same client
// libraries, and keeps nothing. Each chat has a goroutine, so its messages keep their order.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	openai "github.com/sashabaranov/go-openai"
)

func main() {
	telegram := flag.String("telegram", "", "`URL` of the Bot API server")
	token := flag.String("token", "", "the bot's token")
	model := flag.String("model", "", "`URL` of the model's API, with /v1")
	server := flag.String("tools", "", "`PROGRAM` of an MCP server, whose arguments follow")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "floor:", run(*telegram, *token, *model, *server, flag.Args())) // it has no other end than a failure
	os.Exit(1)
}

func run(telegram, token, modelURL, server string, args []string) error {
	bot, err := tgbotapi.NewBotAPIWithClient(token, telegram+"/bot%s/%s", newClient())
	if err != nil {
		return err
	}
	cfg := openai.DefaultConfig("none")
	cfg.BaseURL, cfg.HTTPClient = modelURL, newClient()
	f := floor{bot: bot, model: openai.NewClientWithConfig(cfg), chats: map[int64]chan string{}}
	if server != "" {
		if f.tools, err = startTools(server, args); err != nil {
			return err
		}
	}
	return f.poll()
}

// newClient keeps a connection for each chat that talks at once.
func newClient() *http.Client {
	return &http.Client{Transport: drains{&http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512}}}
}

// drains reads every body to its end before it is closed, without which the
// connection of a stream could not be used again.
type drains struct{ http.RoundTripper }

func (d drains) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = drained{resp.Body}
	}
	return resp, err
}

type drained struct{ io.ReadCloser }

func (d drained) Close() error {
	_, _ = io.Copy(io.Discard, d.ReadCloser)
	return d.ReadCloser.Close()
}

type floor struct {
	bot   *tgbotapi.BotAPI
	model *openai.Client
	tools *toolServer           // nil: none
	chats map[int64]chan string // texts to be answered
}

func (f *floor) poll() error {
	next := tgbotapi.UpdateConfig{Limit: 100, Timeout: 50}
	for {
		updates, err := f.bot.GetUpdates(next)
		if err != nil {
			return err
		}
		for _, update := range updates {
			next.Offset = update.UpdateID + 1
			if update.Message != nil {
				f.chat(update.Message.Chat.ID) <- update.Message.Text
			}
		}
	}
}

// chat is the mailbox of a chat, whose goroutine is started with its first message.
func (f *floor) chat(id int64) chan<- string {
	mail := f.chats[id]
	if mail == nil {
		mail = make(chan string, 100)
		f.chats[id] = mail
		go func() {
			for text := range mail {
				if err := f.answer(id, text); err != nil {
					fmt.Fprintln(os.Stderr, "floor:", err)
				}
			}
		}()
	}
	return mail
}

func (f *floor) answer(chat int64, text string) error {
	reply, err := f.ask(text)
	if err != nil {
		return err
	}
	_, err = f.bot.Send(tgbotapi.NewMessage(chat, reply))
	return err
}

// ask has the model answer a text, and calls the tools that it asks for.
func (f *floor) ask(text string) (string, error) {
	messages := []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: text}}
	for {
		said, err := f.call(messages)
		if err != nil || len(said.ToolCalls) == 0 {
			return said.Content, err
		}
		messages = append(messages, said)
		for _, call := range said.ToolCalls {
			result, err := f.tools.call(call)
			if err != nil {
				return "", err
			}
			messages = append(messages, result)
		}
	}
}

// call makes one call of the model.
func (f *floor) call(messages []openai.ChatCompletionMessage) (said openai.ChatCompletionMessage, err error) {
	said.Role = openai.ChatMessageRoleAssistant
	stream, err := f.model.CreateChatCompletionStream(context.Background(), openai.ChatCompletionRequest{
		Model: "test-model", Messages: messages, Tools: f.tools.offered(), StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		return said, err
	}
	defer stream.Close()
	var text strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			said.Content = text.String()
			return said, nil
		}
		if err != nil {
			return said, err
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
			said.ToolCalls = withDeltas(said.ToolCalls, choice.Delta.ToolCalls)
		}
	}
}
