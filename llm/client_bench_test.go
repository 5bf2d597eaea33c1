package llm_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	openai "github.com/sashabaranov/go-openai"

	"parley/llm"
	"parley/llm/llmtest"
)

// BenchmarkComplete measures a call with a short answer, including the server, in two hundred chats at
// once.
func BenchmarkComplete(b *testing.B) {
	server := llmtest.New(b)
	server.Quiet()
	client := llm.NewClient(fastRetries(server), nil)
	req := ask("Hello, how are you?")
	b.SetParallelism(100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.Complete(b.Context(), req, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHistory measures a call by the length of the history, which the server does not read. A call of
// go-openai alone, with one message, is there for comparison.
func BenchmarkHistory(b *testing.B) {
	url := constantServer(b)
	for _, n := range []int{1, 20, 300} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			client := llm.NewClient(llm.Config{BaseURL: url, Model: "test-model"}, nil)
			req := llm.Request{Messages: history(n)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Complete(b.Context(), req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("go-openai", func(b *testing.B) {
		cfg := openai.DefaultConfig("")
		cfg.BaseURL = url
		client := openai.NewClientWithConfig(cfg)
		b.ReportAllocs()
		for b.Loop() {
			if err := bareCall(b, client); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// constantServer starts a server that answers every call with the same short stream.
func constantServer(b *testing.B) (url string) {
	b.Helper()
	const tail = `"finish_reason":null}]}`
	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"test-model",`
	chunks := []string{head + `"choices":[{"index":0,"delta":{"role":"assistant","content":""},` + tail}
	for range 6 {
		chunks = append(chunks, head+`"choices":[{"index":0,"delta":{"content":"some words of text "},`+tail)
	}
	chunks = append(chunks,
		head+`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		head+`"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":30,"total_tokens":50}}`)
	body := []byte(events(chunks...))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// history returns n messages of a conversation, with a tool call in every ten of them.
func history(n int) []llm.Message {
	words := strings.Repeat("What is said \"here\" is\nof a usual length. ", 4)
	var messages []llm.Message
	for i := range n {
		m := llm.Message{Role: []string{"user", "assistant"}[i%2], Content: words}
		switch i % 10 {
		case 7:
			m.ToolCalls = []llm.ToolCall{{ID: fmt.Sprintf("call_%d", i), Name: "look", Arguments: `{"query":"something"}`}}
		case 8:
			m.Role, m.ToolCallID = "tool", fmt.Sprintf("call_%d", i-1)
		}
		messages = append(messages, m)
	}
	return messages
}

func bareCall(b *testing.B, client *openai.Client) error {
	stream, err := client.CreateChatCompletionStream(b.Context(), openai.ChatCompletionRequest{
		Model:         "test-model",
		Messages:      []openai.ChatCompletionMessage{{Role: "user", Content: "Hello, how are you?"}},
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
