package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/channels/hosted"
	"parley/conversation/files"
)

func (c *Channel) fileOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "get-file", Method: http.MethodGet, Path: pathOfConversation + "/messages/{seq}/files/{n}", Tags: []string{tagConversations},
			Summary: "Get a file of a message", Errors: []int{http.StatusNotFound},
		}, c.getFile).tells(http.StatusOK, "The bytes of the file", "", "application/octet-stream"),
		endpoint(c, huma.Operation{
			OperationID: "get-image", Method: http.MethodGet, Path: pathOfConversation + "/messages/{seq}/images/{n}", Tags: []string{tagConversations},
			Summary: "Get a picture of a message", Errors: []int{http.StatusNotFound},
		}, c.getImage).tells(http.StatusOK, "The bytes of the picture", "", "image/png", "image/jpeg", "image/webp", "image/gif"),
	}
}

// OfMessage names something that came with a message.
type OfMessage struct {
	OfChat
	Seq int64 `path:"seq" minimum:"1" doc:"The message's place in the conversation" example:"1"`
	N   int   `path:"n" minimum:"0" doc:"The place in the message's list, from 0" example:"0"`
}

// getFile returns the bytes of a file of a message.
func (c *Channel) getFile(ctx context.Context, in *OfMessage) (*huma.StreamResponse, error) {
	if _, _, err := files.New(c.Store).FileAt(ctx, in.ID, in.Seq, in.N); err != nil {
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
	image, err := files.New(c.Store).ImageAt(ctx, in.ID, in.Seq, in.N)
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
