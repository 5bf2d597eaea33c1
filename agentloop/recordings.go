package agentloop

import (
	"context"
	"errors"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/filecontent"
	"parley/internal/clock"
)

// longestTranscriptionWait is the longest wait that a server may ask for within a run.
// A recording whose server asks for more is transcribed by a later run.
const longestTranscriptionWait = 10 * time.Second

// transcribe has a recording transcribed, and tries again soon where that may help. It
// adds the calls that it makes to p.
func (l *loop) transcribe(ctx context.Context, kept files.File, p *part) error {
	for try := 0; ; try++ {
		attempts, err := l.router.content.Transcribe(ctx, kept)
		for _, a := range attempts {
			step := l.router.modelStep(a, window.List{})
			step.Purpose, step.Shown = steps.PurposeTranscription, 0
			p.calls = append(p.calls, step)
		}
		var delay *filecontent.Delay
		if !errors.As(err, &delay) {
			return err
		}
		l.deps.Log.Warn("recording not transcribed", "session", l.key, "file", kept.ID, "error", delay.Err)
		if try == len(fetchWaits) || delay.RetryAfter > longestTranscriptionWait || clock.Sleep(ctx, max(fetchWaits[try], delay.RetryAfter)) != nil {
			return err
		}
	}
}

// addCalls stores the calls that were made to read the files of a run, with their cost.
func (l *loop) addCalls(ctx context.Context, run conversation.Run, id string, calls []steps.Step) {
	if len(calls) == 0 {
		return
	}
	record := l.backgroundOf(run, id)
	record.Steps = calls
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := usage.New(l.deps.Store).AddBackground(storing, record); err != nil {
		l.deps.Log.Warn("cost of a call not stored", "run", record.Run, "purpose", steps.PurposeTranscription, "error", err)
	}
}
