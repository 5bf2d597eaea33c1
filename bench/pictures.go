package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// pictures measures a run in a session whose history shows a megabyte of pictures, beside
// one whose history has as many tokens of text.
func (b *bench) pictures(ctx context.Context) error {
	const shown, width, height, runs = 16, 128, 170, 40 // 16 pictures of 64 KiB, as many as a call shows
	figures := []*figure{
		b.report.figure("a run with 1 MiB of pictures in its history", "ms", ratioAtMost(1.2)), // the floor is the call alone
		b.report.figure("the same with text of as many tokens", "ms", bar{}),
		b.report.figure("with pictures, CPU a run", "ms", bar{}),
		b.report.figure("with text, CPU a run", "ms", bar{}),
	}
	f, err := startFakes()
	if err != nil {
		return err
	}
	defer f.close()
	return b.serving(ctx, f, filepath.Join(b.dir, "pictures.db"), func(at front, p *process) error {
		for n := range shown {
			picture, err := noise(width, height, uint64(n))
			if err == nil {
				err = at.send(ctx, "api:pictures", "look", picture)
			}
			if err == nil { // a picture counts 1,105 tokens
				err = at.send(ctx, "api:text", "look "+strings.Repeat("here ", 1105), nil)
			}
			if err != nil {
				return err
			}
		}
		for range b.rounds {
			bare, err := at.sendBare(ctx, f.modelURL, shown, width, height, runs)
			if err != nil {
				return err
			}
			figures[0].floor = append(figures[0].floor, median(bare))
			for i, session := range []string{"api:pictures", "api:text"} {
				took, cpu, err := at.time(ctx, p, session, runs)
				if err != nil {
					return err
				}
				figures[i].gateway = append(figures[i].gateway, took)
				figures[2+i].gateway = append(figures[2+i].gateway, cpu)
			}
		}
		return nil
	})
}

// time returns how long a run of a session takes, by the clock and of the processor, in
// milliseconds.
func (at front) time(ctx context.Context, p *process, session string, runs int) (took, cpu float64, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	var all []float64
	for range runs {
		began := time.Now()
		if err := at.send(ctx, session, "and?", nil); err != nil {
			return 0, 0, err
		}
		all = append(all, milliseconds(time.Since(began)))
	}
	after, err := p.cpu()
	return median(all), milliseconds(after-before) / float64(runs), err
}

// sendBare returns how long each call of the model with so many pictures takes alone, in
// milliseconds.
func (at front) sendBare(ctx context.Context, model string, pictures, width, height, calls int) (all []float64, err error) {
	parts := []map[string]any{{"type": "text", "text": "and?"}}
	for n := range pictures {
		picture, err := noise(width, height, uint64(n))
		if err != nil {
			return nil, err
		}
		address := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture)
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": address}})
	}
	body, err := json.Marshal(map[string]any{"model": "test-model", "messages": []map[string]any{{"role": "user", "content": parts}}})
	if err != nil {
		return nil, err
	}
	direct := front{strings.TrimSuffix(model, "/"), at.client}
	for range calls {
		began := time.Now()
		answer, err := direct.do(ctx, http.MethodPost, "/chat/completions", body)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, answer)
		if err := errors.Join(err, answer.Close()); err != nil {
			return nil, err
		}
		all = append(all, milliseconds(time.Since(began)))
	}
	return all, nil
}

// send says something in a session and reads the answer. A picture goes along if there is
// one.
func (at front) send(ctx context.Context, session, text string, picture []byte) error {
	message := map[string]any{"text": text}
	if picture != nil {
		message["files"] = []map[string]any{{"name": "picture.png", "data": picture}}
	}
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	answer, err := at.do(ctx, http.MethodPost, "/api/v1/sessions/"+session+"/messages", body)
	if err != nil {
		return err
	}
	defer answer.Close()
	var said struct{ Reply string }
	if err := json.NewDecoder(answer).Decode(&said); err != nil || said.Reply == "" {
		return fmt.Errorf("the answer in %s is %q: %w", session, said.Reply, err)
	}
	_, err = io.Copy(io.Discard, answer)
	return err
}

// noise returns a PNG that can't be compressed.
func noise(width, height int, seed uint64) ([]byte, error) {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range picture.Pix {
		if picture.Pix[i] = byte(random.Uint32()); i%4 == 3 {
			picture.Pix[i] = 0xFF
		}
	}
	var data bytes.Buffer
	err := png.Encode(&data, picture)
	return data.Bytes(), err
}
