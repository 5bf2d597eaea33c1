package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/approvals"
	stored "parley/conversation/usage"
	"parley/httpserver"
)

func (c *Channel) runOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "cancel-run", Method: http.MethodPost, Path: pathOfSession + "/runs/{run}/cancel", Tags: []string{tagMessages},
			Summary: "Stop a run",
			Description: "What the run has written so far is kept, and the session goes on with the messages that wait. " +
				"Of a run that has ended, nothing changes. May be repeated.",
			Errors: []int{http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable},
		}, c.cancelRun),
	}
}

type cancelRun struct {
	OfSession
	Run int64 `path:"run" minimum:"1" doc:"The run's id, as in answers, events and messages" example:"42"`
}

// runStatus says how a run has ended.
type runStatus struct {
	Body struct {
		Run    int64               `json:"run"`
		Status conversation.Status `json:"status" enum:"done,failed,stopped" doc:"How it has ended"`
	}
}

// cancelRun stops a run under way, and waits until it has ended.
func (c *Channel) cancelRun(ctx context.Context, in *cancelRun) (*runStatus, error) {
	key, err := ownKey(in.Key)
	if err != nil {
		return nil, err
	}
	run, known, err := stored.New(c.Store).Run(ctx, key, in.Run)
	if err == nil && !known {
		if err = c.endRun(ctx, key, in.Run); err == nil {
			run, known, err = stored.New(c.Store).Run(ctx, key, in.Run)
		}
	}
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, problem(http.StatusNotFound, "The session has no run %d that is under way or has ended. Messages that wait for a run are taken back with /stop.", in.Run)
	}
	out := &runStatus{}
	out.Body.Run, out.Body.Status = run.ID, run.Status
	return out, nil
}

// runUnderWay returns the run that answers an inbound in this process, 0 for none.
func (c *Channel) runUnderWay(key conversation.Key, inbound int64) int64 {
	watch := c.Feed.Watch(key)
	defer watch.Close()
	if progress, working := watch.Now(); working && progress.Takes(inbound) {
		return progress.Run
	}
	return 0
}

// endRun stops a run of a session if it is under way, and waits for its end.
func (c *Channel) endRun(ctx context.Context, key conversation.Key, run int64) error {
	watch := c.Feed.Watch(key)
	defer watch.Close()
	isUnderWay := func() bool {
		progress, working := watch.Now()
		return working && progress.Run == run
	}
	if c.awaitNews(ctx, watch, key, isUnderWay); !isUnderWay() {
		return c.endAskingRun(ctx, watch, key, run)
	}
	c.Cancel(key, run)
	return httpserver.Follow(ctx, watch.C(), c.gate.Ending(), func() error { return nil }, func(bool) (done bool, err error) {
		if isUnderWay() && c.gate.IsEnding() {
			return false, withRetryAfter(restartTime, problem(http.StatusServiceUnavailable, "The gateway is ending; the run may go on at its next start."))
		}
		return !isUnderWay(), nil
	})
}

// newsTime is how long it takes at most until this process hears of a run that another node has under way.
const newsTime = 2 * time.Second

// awaitNews waits until isUnderWay, at most newsTime, if another node may work the session: that node tells of its runs only
// after somebody has begun to watch the session here.
func (c *Channel) awaitNews(ctx context.Context, watch *activity.Watch, key conversation.Key, isUnderWay func() bool) {
	node := c.Store.Node()
	if node == nil || node.Owns(string(key)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, newsTime)
	defer cancel()
	for !isUnderWay() {
		select {
		case <-watch.C():
		case <-ctx.Done():
			return
		}
	}
}

// endAskingRun stops a run that waits for the answer of a person, if it does, and waits until it
// is stored.
func (c *Channel) endAskingRun(ctx context.Context, watch *activity.Watch, key conversation.Key, run int64) error {
	isOpen := func() (bool, error) {
		open, err := approvals.New(c.Store).Open(ctx, key)
		return slices.ContainsFunc(open, func(q approvals.Question) bool { return q.Run == run }), err
	}
	if open, err := isOpen(); err != nil || !open {
		return err
	}
	c.Cancel(key, run)
	return httpserver.Follow(ctx, watch.C(), c.gate.Ending(), func() error { return nil }, func(bool) (done bool, err error) {
		open, err := isOpen()
		return !open, err
	})
}
