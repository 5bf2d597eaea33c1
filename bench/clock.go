package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// startClock serves a model that says what time it is, in nanoseconds, a few
// times in every answer.
func startClock() (*http.Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", tellTime)
	server := &http.Server{Addr: listener.Addr().String(), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "bench: the model:", err)
		}
	}()
	return server, nil
}

// tellTime streams as https://platform.openai.com/docs/api-reference/chat-streaming says.
func tellTime(w http.ResponseWriter, _ *http.Request) {
	const pieces, pause = 8, 20 * time.Millisecond
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for range pieces {
		time.Sleep(pause)
		fmt.Fprintf(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"clock","choices":[{"index":0,"delta":{"content":"%d "}}]}`+"\n\n", time.Now().UnixNano())
		_ = flusher.Flush() // a client that is gone is not measured
	}
	fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"clock","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}
