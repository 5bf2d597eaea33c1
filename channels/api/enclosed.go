package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/channels/hosted"
)

// OfMessage names something that came with a message.
type OfMessage struct {
	OfChat
	Seq int64 `path:"seq" minimum:"1" doc:"Place of the message in the conversation" example:"1"`
	N   int   `path:"n" minimum:"0" doc:"Place in the message's list, from 0" example:"0"`
}

// getFile returns the bytes of a file of a message.
func (c *Channel) getFile(ctx context.Context, in *OfMessage) (*huma.StreamResponse, error) {
	if _, _, err := c.Store.FileAt(ctx, in.ID, in.Seq, in.N); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		if err := hosted.SendFile(w, r, c.Store, in.ID, in.Seq, in.N); err != nil {
			writeProblem(w, c.problemOf(r.Context(), err))
		}
	}}, nil
}

// getImage returns the bytes of a picture of a message.
func (c *Channel) getImage(ctx context.Context, in *OfMessage) (*huma.StreamResponse, error) {
	image, err := c.Store.ImageAt(ctx, in.ID, in.Seq, in.N)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", image.MediaType)
		ctx.SetHeader("Content-Length", strconv.Itoa(len(image.Data)))
		ctx.SetHeader("X-Content-Type-Options", "nosniff")
		ctx.SetStatus(http.StatusOK)
		_, _ = ctx.BodyWriter().Write(image.Data) // a client that is gone misses nothing
	}}, nil
}
