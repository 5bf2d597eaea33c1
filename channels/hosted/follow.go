package hosted

import (
	"context"
	"time"
)

// beatEvery is the time between two signs of life of a stream:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#authoring-notes
const beatEvery = 15 * time.Second

// Follow keeps a client up to date: it calls update at once, then after each
// signal from news or more, which may be nil, and after each beat, which comes
// every 15 s as a sign of life. update is told whether to read the store although
// no signal said that something is new there, as at the beginning and after a
// beat: another process may work the session. A signal that is closed counts once.
//
// Follow returns when update is done, what update or beat returns as an error, or
// the cause of ctx when that ends.
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
