package httpserver

import (
	"context"
	"time"
)

// beatEvery is the time between two signs of life of a stream, which the standard advises:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#authoring-notes
const beatEvery = 15 * time.Second

// Follow keeps a client up to date. It calls update at once, after each signal from
// news or more, either of which may be nil, and after each beat. It calls beat every
// 15 s, so that the connection stays alive. A closed channel counts as one signal.
//
// readStore is true for the first update and after each beat: something may be new
// in the store without a signal, since another process may work the session.
//
// Follow returns nil when update is done, the error of update or beat, or the cause
// of ctx when that ends.
func Follow(ctx context.Context, news, more <-chan struct{}, beat func() error, update func(readStore bool) (done bool, err error)) error {
	alive := time.NewTicker(beatEvery)
	defer alive.Stop()
	for readStore := true; ; {
		if done, err := update(readStore); done || err != nil {
			return err
		}
		readStore = false
		select {
		case _, open := <-news:
			if !open {
				news = nil
			}
		case _, open := <-more:
			if !open {
				more = nil
			}
		case <-alive.C:
			readStore = true
			if err := beat(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
