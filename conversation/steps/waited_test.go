package steps_test

import (
	"testing"
	"time"

	"parley/conversation/steps"
)

// The time in which several questions are open counts once.
func TestWaitedCountsOverlappingWaitsOnce(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1_000_000)
	asked := func(at, took time.Duration) steps.Step {
		return steps.Step{Kind: steps.Approval, At: start.Add(at), Took: took}
	}
	list := []steps.Step{
		{Kind: steps.Model, At: start, Took: time.Hour}, asked(time.Minute, time.Minute), asked(time.Minute, 10*time.Second),
		asked(90*time.Second, time.Minute), asked(time.Hour, time.Minute),
	}
	if got := steps.Waited(list); got != 150*time.Second {
		t.Errorf("waited %s", got)
	}
}
