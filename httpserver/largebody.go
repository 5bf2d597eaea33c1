package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxLargeBodies is how many bytes of large bodies may be in memory at once, over
// all requests. Decoding one takes several times its size.
const maxLargeBodies = 48 << 20

// largeBodies limits the memory of requests with large bodies, such as files. A
// body is written to a file as it arrives, so that a slow client costs only disk,
// and is read from there when enough memory is free.
type largeBodies struct {
	folder string // folder for the files; "" = the system's folder for temporary files
	memory *semaphore.Weighted
}

func newLargeBodies(folder string) *largeBodies {
	return &largeBodies{folder: folder, memory: semaphore.NewWeighted(maxLargeBodies)}
}

// hold replaces a large body of r by one that waits for memory, and returns what
// releases that. It leaves small bodies as they are.
func (l *largeBodies) hold(r *http.Request, route route) (held *http.Request, release func()) {
	small := r.ContentLength >= 0 && r.ContentLength <= DefaultMaxBody
	if !hasBody(r) || small || route.maxBody <= DefaultMaxBody {
		return r, func() {}
	}
	b := &largeBody{bodies: l, ctx: r.Context(), sent: r.Body}
	r = r.WithContext(context.WithValue(r.Context(), largeBodyKey{}, b))
	r.Body = b
	return r, b.done
}

// largeBody is a body that is written to a file when it is first read.
type largeBody struct {
	bodies *largeBodies
	ctx    context.Context // of the request
	sent   io.Reader       // the body as it comes from the client
	err    error           // why the body can't be read
	cut    error           // why the body ended early, after a part had come; nil: it is complete

	mu    sync.Mutex // guards what follows
	file  *os.File   // nil until the first read, and after done
	share int64      // bytes of the memory for large bodies that this one has
	ended bool
}

type largeBodyKey struct{}

func (b *largeBody) Read(p []byte) (int, error) {
	if b.sent != nil {
		b.err = b.spool()
		b.sent = nil
	}
	if b.err != nil {
		return 0, b.err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.file.Read(p)
	if errors.Is(err, io.EOF) && b.cut != nil {
		err = b.cut
	}
	return n, err
}

// Close does nothing: done removes the file.
func (*largeBody) Close() error { return nil }

// errNoSpool says that a body could not be put into a file.
var errNoSpool = errors.New("the file for a request's body can't be written")

// spool writes the body to a file and waits for its share of the memory.
func (b *largeBody) spool() error {
	file, err := os.CreateTemp(b.bodies.folder, ".parley-body-*")
	if err != nil {
		return fmt.Errorf("%w: %w", errNoSpool, err)
	}
	_ = os.Remove(file.Name()) // the bytes go with the process, however it ends
	size, err := io.Copy(file, b.sent)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		b.cut, err = err, nil
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	share := min(size, maxLargeBodies)
	if err == nil {
		err = b.bodies.memory.Acquire(b.ctx, share)
	}
	if err != nil {
		file.Close()
		if disk := (*fs.PathError)(nil); errors.As(err, &disk) {
			err = fmt.Errorf("%w: %w", errNoSpool, err)
		}
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file, b.share = file, share
	return nil
}

// done releases the memory and removes the file.
func (b *largeBody) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file != nil {
		b.file.Close()
		b.bodies.memory.Release(b.share)
	}
	b.file, b.ended = nil, true
}

// BodyDone reports that a handler no longer holds anything of its request's body,
// so that another large body may be read. A handler that goes on for long after
// that, such as one that waits for an answer, calls it; otherwise it happens at
// the end of the request. ctx is the request's.
func BodyDone(ctx context.Context) {
	if b, ok := ctx.Value(largeBodyKey{}).(*largeBody); ok {
		b.done()
	}
}
