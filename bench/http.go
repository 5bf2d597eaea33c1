package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/conversation/storetest"
)

// front is the HTTP server of a gateway under measurement.
type front struct {
	url    string // without a slash at its end
	client *http.Client
}

// serving starts a gateway that serves HTTP, with further sections of its configuration, and
// calls measure when it does.
func (b *bench) serving(ctx context.Context, f *fakes, database string, measure func(front, *process) error, sections ...string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
	if err != nil {
		return err
	}
	b.listen = l.Addr().String()
	defer func() { b.listen = "" }()
	if err := l.Close(); err != nil {
		return err
	}
	p, err := b.startGateway(ctx, f, database, sections...)
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 2000}
	defer transport.CloseIdleConnections()
	at := front{"http://" + b.listen, &http.Client{Transport: transport}}
	if err = at.awaitReady(ctx); err == nil {
		err = measure(at, p)
	}
	p.kill()
	return p.told(err)
}

func (at front) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if body, err := at.get(ctx, "/healthz"); err == nil {
			return body.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ctx.Err()
}

func (at front) get(ctx context.Context, path string) (io.ReadCloser, error) {
	return at.do(ctx, http.MethodGet, path, nil)
}

// do makes a request, which must be answered with 200.
func (at front) do(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	return at.doOnce(ctx, method, path, body, "")
}

// doOnce is do with a key by which the gateway recognizes a repetition; "" = none.
func (at front) doOnce(ctx context.Context, method, path string, body []byte, key string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, at.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+httpToken)
	answer, err := at.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 500)) // as much as there is
		return nil, fmt.Errorf("%s %s is answered %s: %s", method, path, answer.Status, said)
	}
	return answer.Body, nil
}

// say sends a message to a session of the API, and returns the body of the answer.
func (at front) say(ctx context.Context, session, text string, stream bool) (io.ReadCloser, error) {
	return at.sayOnce(ctx, session, text, stream, "")
}

// sayOnce is say with a key by which the gateway recognizes a repetition.
func (at front) sayOnce(ctx context.Context, session, text string, stream bool, key string) (io.ReadCloser, error) {
	body, err := json.Marshal(map[string]any{"text": text, "stream": stream})
	if err != nil {
		return nil, err
	}
	return at.doOnce(ctx, http.MethodPost, "/api/v1/sessions/"+url.PathEscape(session)+"/messages", body, key)
}

// reading measures programs that read a conversation of 50 messages, as fast as they
// are answered.
func (b *bench) reading(ctx context.Context) error {
	const messages, clients, lasting = 50, 8, 3 * time.Second
	figures := []*figure{
		b.report.figure(fmt.Sprintf("API: reading %d messages", messages), "requests/s", atLeast(2000)),
		b.report.figure("API: CPU a request", "ms", bar{}),
	}
	database := filepath.Join(b.dir, "reading.db")
	if err := storetest.Fill(ctx, database, storetest.Filling{First: 1, Sessions: 20, Messages: messages}); err != nil {
		return err
	}
	f, err := startFakes()
	if err != nil {
		return err
	}
	defer f.close()
	for range b.rounds {
		err := b.serving(ctx, f, database, func(at front, p *process) error {
			before, err := p.cpu()
			if err != nil {
				return err
			}
			var done atomic.Int64
			began := time.Now()
			g, ctx := errgroup.WithContext(ctx)
			for client := range clients {
				g.Go(func() error {
					path := fmt.Sprintf("/api/v1/sessions/telegram:chat:%d/messages?view=all&limit=%d", client+1, messages)
					for time.Since(began) < lasting {
						if err := at.read(ctx, path, messages); err != nil {
							return err
						}
						done.Add(1)
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				return err
			}
			took := time.Since(began)
			after, err := p.cpu()
			figures[0].gateway = append(figures[0].gateway, float64(done.Load())/took.Seconds())
			figures[1].gateway = append(figures[1].gateway, milliseconds(after-before)/float64(done.Load()))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads a conversation, which must be whole.
func (at front) read(ctx context.Context, path string, messages int) error {
	body, err := at.get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(`"role":`)); n != messages {
		return fmt.Errorf("%s has %d messages", path, n)
	}
	return nil
}

// listening measures many listeners to the events of sessions, all of which must get
// what is answered there.
func (b *bench) listening(ctx context.Context) error {
	const sessions = 10
	memory := b.report.figure(fmt.Sprintf("added by %d listeners", b.listeners), "MiB", bar{})
	heard := b.report.figure(fmt.Sprintf("an answer heard by all %d listeners", b.listeners), "ms", bar{})
	f, err := startFakes()
	if err != nil {
		return err
	}
	defer f.close()
	return b.serving(ctx, f, filepath.Join(b.dir, "listening.db"), func(at front, p *process) error {
		before, err := p.memory(resident)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		hearing, ctx := errgroup.WithContext(ctx)
		opening, _ := errgroup.WithContext(ctx)
		opening.SetLimit(50)
		for i := range b.listeners {
			opening.Go(func() error {
				body, err := at.get(ctx, fmt.Sprintf("/api/v1/sessions/api:heard-%d/events", i%sessions))
				if err != nil {
					return err
				}
				lines := bufio.NewReaderSize(body, 512)
				if err := awaitLine(lines, "accepted"); err != nil {
					return err
				}
				hearing.Go(func() error {
					defer body.Close()
					return awaitLine(lines, `"content":"echo: hello`)
				})
				return nil
			})
		}
		if err := opening.Wait(); err != nil {
			return err
		}
		after, err := p.memory(resident)
		if err != nil {
			return err
		}
		memory.gateway = append(memory.gateway, after-before)
		began := time.Now()
		for i := range sessions {
			hearing.Go(func() error {
				body, err := at.say(ctx, fmt.Sprint("api:heard-", i), "hello", false)
				if err != nil {
					return err
				}
				return body.Close()
			})
		}
		err = hearing.Wait()
		heard.gateway = append(heard.gateway, milliseconds(time.Since(began)))
		return err
	})
}

func awaitLine(lines *bufio.Reader, text string) error {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", text, err)
		}
		if strings.Contains(line, text) {
			return nil
		}
	}
}

// streaming measures how much later a program gets a piece of an answer than the
// model has said it.
func (b *bench) streaming(ctx context.Context) error {
	first := b.report.figure("first piece of a streamed answer, behind the model's", "ms", atMost(5))
	later := b.report.figure("pieces of a streamed answer, 95th percentile", "ms", atMost(5))
	f, err := startFakes()
	if err != nil {
		return err
	}
	defer f.close()
	model, err := startClock()
	if err != nil {
		return err
	}
	defer model.Close()
	f.modelURL = "http://" + model.Addr + "/v1"
	return b.serving(ctx, f, filepath.Join(b.dir, "streaming.db"), func(at front, _ *process) error {
		for i := range b.pings {
			late, err := at.lateness(ctx, fmt.Sprint("api:streamed-", i%5))
			if err != nil {
				return err
			}
			first.gateway = append(first.gateway, late[0])
			later.gateway = append(later.gateway, quantile(late, 0.95))
		}
		return nil
	})
}

// lateness asks once, and says by how many milliseconds each delta is late: it
// carries the time at which the model has said it.
func (at front) lateness(ctx context.Context, session string) (late []float64, err error) {
	body, err := at.say(ctx, session, "what time is it?", true)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), `data: {"text":"`)
		if !isData {
			continue
		}
		now := time.Now()
		times := strings.Fields(strings.TrimSuffix(data, `"}`))
		said, err := strconv.ParseInt(times[0], 10, 64) // of several, the one that has waited longest
		if err != nil {
			return nil, err
		}
		late = append(late, milliseconds(now.Sub(time.Unix(0, said))))
	}
	if len(late) == 0 {
		return nil, fmt.Errorf("%s heard nothing", session)
	}
	return late, nil
}
