package agentloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/steps"
	"parley/internal/clock"
)

const (
	fetchTimeout = 2 * time.Minute // for all files of a run together
	maxParallel  = 4               // files of a run that are fetched at once
)

// maxDownloadMemory is how many bytes the files that are being fetched may take in
// memory, over all runs.
const maxDownloadMemory = 64 << 20

// fetchWaits are the pauses before a file is fetched again in the same run.
var fetchWaits = []time.Duration{200 * time.Millisecond, time.Second}

// laterWaits are the times after which later runs fetch a file again, by how many of
// them have failed. After the last one it is given up.
var laterWaits = []time.Duration{0, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// fetchFiles stores the files of a question and reads them into its messages: text as
// text, and pictures as images. Files that can't be fetched are named with the reason.
// It also fetches what earlier runs could not, and tells of that in a message in front
// of the question. When ctx ends, the files that are left are fetched by a later run.
func (l *loop) fetchFiles(ctx context.Context, q *question) {
	if q.again > 0 || q.fetched {
		return
	}
	q.fetched = true
	limited, cancel := context.WithTimeout(ctx, fetchTimeout+l.router.content.TranscriptionTimeout())
	defer cancel()
	users, notes := slices.Clone(q.users), len(q.notes)
	parts := l.keepAll(limited, q.asked)
	for i, in := range q.asked {
		if len(in.Attachments) == 0 {
			continue
		}
		users[notes+i] = l.router.userMessage(in, enclose(in.Text, parts[i]))
		q.problems = append(q.problems, problemsOf(parts[i])...)
		q.calls = append(q.calls, callsOf(parts[i])...)
	}
	late, calls := l.lateFiles(limited)
	if slices.ContainsFunc(q.took, func(in conversation.Inbound) bool { return len(in.Attachments) > 0 }) {
		l.cache.noneMissing = false // the commit of the run may store files that are to be fetched later
	}
	q.users, q.calls = slices.Concat(late, users), append(q.calls, calls...)
}

// keepAll stores the files of messages and returns them as the messages have them.
func (l *loop) keepAll(ctx context.Context, took []conversation.Inbound) [][]part {
	all := make([][]part, len(took))
	free := make(chan struct{}, maxParallel)
	var fetching sync.WaitGroup
	for i, in := range took {
		all[i] = make([]part, len(in.Attachments))
		for n := range in.Attachments {
			free <- struct{}{}
			fetching.Go(func() {
				defer func() { <-free }()
				all[i][n] = l.keepFile(ctx, in, n)
			})
		}
	}
	fetching.Wait()
	return all
}

// keepFile stores a file of a message and returns it as the message has it.
func (l *loop) keepFile(ctx context.Context, in conversation.Inbound, n int) part {
	attachment := in.Attachments[n]
	if attachment.Ref == "" || l.deps.Files == nil {
		return named(attachment)
	}
	kept, err := l.fetch(ctx, files.Incoming{
		Session: l.key, Inbound: in.ID, N: n, Attachment: attachment, Open: l.opener(in.Channel(), attachment),
	})
	if err == nil {
		var p part
		if p, err = l.read(ctx, kept); err == nil {
			return p
		}
	}
	if isFinal(err) {
		return failed(attachment, err)
	}
	p := failed(attachment, err)
	p.file.Source = &media.Source{Channel: in.Channel(), Attachment: attachment, Next: l.deps.Store.Now().Add(laterWaits[0])}
	return p
}

// opener returns what opens a file where its channel has it.
func (l *loop) opener(channel string, attachment media.Attachment) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		return l.deps.Files.Fetch(ctx, channel, attachment)
	}
}

// fetch stores a file, and tries again soon where that may help. The text of its error
// is for the user.
func (l *loop) fetch(ctx context.Context, in files.Incoming) (kept files.File, err error) {
	memory := min(l.deps.FileLimits.Inline, maxDownloadMemory)
	if err := l.router.downloadMemory.Acquire(ctx, memory); err != nil {
		return kept, errors.New("it took too long")
	}
	defer l.router.downloadMemory.Release(memory)
	for _, wait := range append(fetchWaits, 0) {
		err = recovered(func() (err error) {
			kept, err = l.router.kept.Keep(ctx, in, l.deps.FileLimits)
			return err
		})
		if err == nil {
			return kept, nil
		}
		if ctx.Err() != nil {
			return kept, err
		}
		l.deps.Log.Warn("file not fetched", "session", l.key, "file", in.N, "error", cause(err))
		if isFinal(err) || wait == 0 || clock.Sleep(ctx, wait) != nil {
			break
		}
	}
	return kept, err
}

// isFinal reports whether another attempt to fetch a file can't help.
func isFinal(err error) bool {
	var gone *files.GoneError
	var refused *files.RefusedError
	var panicked *panicError
	return errors.As(err, &gone) || errors.As(err, &refused) || errors.As(err, &panicked)
}

// cause returns what the log says of an error.
func cause(err error) error {
	var stored *files.StoreError
	if errors.As(err, &stored) {
		return fmt.Errorf("%w: %w", stored, stored.Err)
	}
	return err
}

// lateFiles fetches the files of earlier messages that could not be fetched with them.
// It returns a message that tells of those that are here now, or nothing, and the calls
// that were made to read them.
func (l *loop) lateFiles(ctx context.Context) ([]conversation.Message, []steps.Step) {
	if l.cache.noneMissing {
		return nil, nil
	}
	missing, none, err := l.router.kept.Missing(ctx, l.key)
	l.cache.noneMissing = none
	if err != nil {
		l.deps.Log.Warn("missing files not read", "session", l.key, "error", err)
		return nil, nil
	}
	var calls []steps.Step
	var came []part
	for _, m := range missing {
		p, ok := l.lateFile(ctx, m)
		calls = append(calls, p.calls...)
		if ok {
			came = append(came, p)
		}
	}
	if len(came) == 0 {
		return nil, calls
	}
	told := enclose("[files of earlier messages, which could not be loaded or read then]", came)
	return []conversation.Message{l.router.userMessage(conversation.Inbound{At: l.deps.Store.Now()}, told)}, calls
}

// lateFile fetches and reads a missing file. ok is false when that is not possible now
// either.
func (l *loop) lateFile(ctx context.Context, m files.Missing) (p part, ok bool) {
	kept, err := m.File, error(nil)
	if !kept.IsHere() {
		kept, err = l.fetch(ctx, files.Incoming{
			Session: l.key, Late: m.ID, Attachment: m.Source.Attachment, Open: l.opener(m.Source.Channel, m.Source.Attachment),
		})
	}
	if err == nil {
		p, err = l.read(ctx, kept)
	}
	if err == nil && p.file.Again.IsZero() {
		return p, true
	}
	attempts, next := m.Source.Attempts+1, time.Time{}
	if !isFinal(err) && attempts < len(laterWaits) {
		next = l.deps.Store.Now().Add(laterWaits[attempts])
		if p.file.Again.After(next) {
			next = p.file.Again
		}
	}
	if err := l.router.kept.Postpone(ctx, m.ID, attempts, next); err != nil {
		l.deps.Log.Warn("attempt to fetch a file not noted", "session", l.key, "error", err)
	}
	return p, false
}
