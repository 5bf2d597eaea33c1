package agentloop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/tools"
)

// withWhole stores the whole text of a result that was cut as a file of the session, and returns the
// result with a line that names the file. The model reads it page by page, like any file. If the file
// can't be kept, the line says why.
func (g *generation) withWhole(ctx context.Context, result conversation.Message, whole string) conversation.Message {
	sum := sha256.Sum256([]byte(result.ToolCallID + "\n" + whole))
	name := fmt.Sprintf("%s-%x.txt", result.ToolName, sum[:4])
	kept, err := g.loop.fetch(context.WithoutCancel(ctx), files.Incoming{
		Session: g.loop.key, Inbound: g.number,
		N:          -1 - wholeResults - int(binary.BigEndian.Uint32(sum[:])>>1),
		Attachment: media.Attachment{Name: name, MediaType: "text/plain; charset=utf-8", Size: int64(len(whole))},
		Open:       func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(whole)), nil },
	})
	line := fmt.Sprintf("[the rest is not kept: %v]", err)
	if err == nil {
		line = fmt.Sprintf("[all of it is the file %s: %s shows it page by page]", name, tools.ReadFileName)
	}
	before := result.Content + "\n"
	result.Content = before + line
	if err == nil {
		result.Files = []media.File{{
			ID: kept.ID, Name: name, MediaType: "text/plain", Size: kept.Size, Lines: media.Extent{From: len(before), To: len(result.Content)},
		}}
	}
	result.Tokens = g.loop.router.tokensOf(result)
	return result
}

// wholeResults is how many pictures of a run can have a place before the files of its results.
const wholeResults = 1 << 20
