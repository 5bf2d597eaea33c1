package httpserver

import (
	"context"
	"errors"
	"time"
)

// beatEvery is the time between two signs of life of a stream, which the standard advises:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#authoring-notes
const beatEvery = 15 * time.Second

// errClosing is why a stream ends when the server closes.
var errClosing = errors.New("the server closes")

// Follow keeps a client up to date. It calls update at once, after each signal from
// news or more, either of which may be nil, and after each beat. It calls beat every
// 15 s, so that the connection stays alive. A closed channel counts as one signal.
//
// readStore is true for the first update and after each beat: something may be new
// in the store without a signal, since another process may work the session.
//
// Follow returns nil when update is done, the error of update or beat, or the cause
// of ctx when that ends. When the server closes, it calls update once more, and returns
// errClosing.
func Follow(ctx context.Context, news, more <-chan struct{}, beat func() error, update func(readStore bool) (done bool, err error)) error {
	alive := time.NewTicker(beatEvery)
	defer alive.Stop()
	closing, _ := ctx.Value(closingKey{}).(<-chan struct{}) // nil for a request that is no stream
	for readStore, last := true, false; ; {
		if done, err := update(readStore); done || err != nil {
			return err
		}
		if last {
			return errClosing
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
		case <-closing:
			readStore, last = true, true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
