package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"parley/gateway"
)

// newProgress returns a progress bar, which shows nothing where there is no terminal.
// total is 0 if it is not known. The bar disappears at the end.
func newProgress(out io.Writer, total int64, what string, options ...progressbar.Option) *progressbar.ProgressBar {
	if total == 0 {
		total = -1 // which turns instead of growing
	}
	common := []progressbar.Option{
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetVisibility(isTerminal(out)),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
	}
	return progressbar.NewOptions64(total, append(common, options...)...)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// interruptible returns a context that ends with the first Ctrl-C or SIGTERM, so that
// the command can stop in order. A later one kills the process, but no repeat of the first, see gateway.SignalRepeat.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(gateway.SignalRepeat, stop) })
	return ctx, stop
}
