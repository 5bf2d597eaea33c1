package api

import (
	"bufio"
	"context"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/transcript"
)

func (c *Channel) exportOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "export-session", Method: http.MethodGet, Path: pathOfSession + "/export", Tags: []string{tagSessions},
			Summary: "Export all conversations of a session", Errors: []int{http.StatusNotFound},
		}, c.exportSession).tells(http.StatusOK, "The file, streamed", "", exportTypes()...),
		endpoint(c, huma.Operation{
			OperationID: "export-conversation", Method: http.MethodGet, Path: pathOfConversation + "/export", Tags: []string{tagConversations},
			Summary: "Export a conversation", Errors: []int{http.StatusNotFound},
		}, c.exportChat).tells(http.StatusOK, "The file, streamed", "", exportTypes()...),
	}
}

type ExportFormat struct {
	Format string `query:"format" enum:"md,json,jsonl" default:"md" doc:"md: Markdown; json: one JSON document; jsonl: one JSON record per line"`
	Files  bool   `query:"files" doc:"Include the bytes of pictures and files, in base64 (json and jsonl)"`
	Images bool   `query:"images" deprecated:"true" doc:"The same as files"`
}

type exportSession struct {
	OfSession
	ExportFormat
}

// exportSession streams all conversations of a session, the oldest first.
func (c *Channel) exportSession(ctx context.Context, in *exportSession) (*huma.StreamResponse, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	found, err := catalog.New(c.Store).Session(ctx, key)
	if err != nil {
		return nil, err
	}
	list, _, err := catalog.New(c.Store).Conversations(ctx, catalog.ConversationQuery{Key: key, ByAge: true})
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	return c.export(list, found, in.ExportFormat)
}

type exportChat struct {
	OfChat
	ExportFormat
}

func (c *Channel) exportChat(ctx context.Context, in *exportChat) (*huma.StreamResponse, error) {
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	of, err := catalog.New(c.Store).Session(ctx, known.Key)
	if err != nil {
		return nil, err
	}
	return c.export([]conversation.Conversation{known}, of, in.ExportFormat)
}

// export streams conversations with one message in memory at a time. A failure
// breaks the connection: half a file must not be taken for a whole one.
func (c *Channel) export(list []conversation.Conversation, of catalog.Session, f ExportFormat) (*huma.StreamResponse, error) {
	format, err := transcript.ParseFormat(f.Format)
	if err != nil {
		return nil, err
	}
	files := f.Files || f.Images
	if files && format == transcript.Markdown {
		return nil, problem(http.StatusUnprocessableEntity, "Pictures and files are written with the formats json and jsonl.")
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", format.MediaType())
		ctx.SetHeader("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(of.Key) + "." + f.Format}))
		ctx.SetStatus(http.StatusOK)
		if err := c.write(ctx.Context(), ctx.BodyWriter(), list, of, format, files); err != nil {
			if ctx.Context().Err() == nil {
				c.Log.Error("export failed", "session", of.Key, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}}, nil
}

func (c *Channel) write(ctx context.Context, to io.Writer, list []conversation.Conversation, of catalog.Session, format transcript.Format, files bool) error {
	out := bufio.NewWriterSize(to, 32<<10)
	if err := transcript.Export(ctx, out, format, c.Store, of, list, files, func() {}); err != nil {
		return err
	}
	return out.Flush()
}

// exportTypes returns the media types that an export may have.
func exportTypes() []string {
	return []string{transcript.JSON.MediaType(), transcript.JSONL.MediaType(), transcript.Markdown.MediaType()}
}

// fileName returns a key as a file name that every system allows.
func fileName(key conversation.Key) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, string(key))
}
