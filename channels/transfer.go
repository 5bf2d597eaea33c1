package channels

import (
	"context"
	"errors"
	"io"
)

// Transfer returns a file that comes from a platform. Reading it fails with
// TransferError.
func Transfer(ctx context.Context, platform string, body io.ReadCloser) io.ReadCloser {
	return &transfer{ctx, platform, body}
}

// TransferError returns why a transfer from a platform failed, in words for people and the model.
// The network's own error is left out, since it names the address, which may hold a secret.
func TransferError(ctx context.Context, platform string) error {
	if ctx.Err() != nil {
		return errors.New("it took too long")
	}
	return errors.New("the connection to " + platform + " failed")
}

type transfer struct {
	ctx      context.Context
	platform string
	body     io.ReadCloser
}

func (t *transfer) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if err != nil && err != io.EOF {
		err = TransferError(t.ctx, t.platform)
	}
	return n, err
}

func (t *transfer) Close() error { return t.body.Close() }
