package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/conversation/files"
	"parley/conversation/media"
)

// platform is the name that people know the platform by.
const platform = "Telegram"

// ref says which file of Telegram's an attachment is. The id is good for this bot
// alone.
type ref struct {
	Bot     string `json:"bot"`
	File    string `json:"file"`
	Size    int64  `json:"size,omitempty"` // bytes, as the message said
	Chat    int64  `json:"chat,omitempty"`
	Message int64  `json:"message,omitempty"`
}

func (r ref) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts and numbers always have JSON
	}
	return string(raw)
}

// maxDownload is the size of the files that Telegram's own servers give to bots, in
// bytes: https://core.telegram.org/bots/api#getfile
const maxDownload = 20 << 20

// errTooLarge says it to the model, which tells the user.
var errTooLarge error = &files.GoneError{Words: "bots get no files of more than 20 MB from Telegram"}

// Fetch opens a file: on the Bot API server, or in the folder in which a server of
// one's own keeps it. No error holds the token, which is a part of every path.
func (c *Channel) Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error) {
	var from ref
	if err := json.Unmarshal([]byte(file.Ref), &from); err != nil || from.File == "" {
		return nil, &files.GoneError{Words: "it is not known where it is"}
	}
	if from.Bot != c.account.ID {
		return nil, errors.New("it came to another bot, which alone can load it")
	}
	if from.Size > maxDownload && c.isHosted() {
		return nil, errTooLarge
	}
	var found struct {
		Path string `json:"file_path"`
	}
	// A server of one's own answers when it has got the whole file itself.
	if err := c.api.call(ctx, uploadTimeout, "getFile", tgbotapi.Params{"file_id": from.File}, &found); err != nil {
		return nil, c.fetchError(ctx, from, err)
	}
	switch {
	case found.Path == "":
		return nil, errors.New("it is not known where Telegram keeps it")
	case isLocal(found.Path):
		body, err := c.openLocal(found.Path)
		if err != nil {
			c.log.Warn("file of the Bot API server not read", "chat", from.Chat, "message", from.Message, "error", err)
			return nil, errors.New("the gateway can't read the folder of its Bot API server; its operator knows more")
		}
		return body, nil
	}
	return c.download(ctx, found.Path)
}

// isHosted reports whether the Bot API server is Telegram's own.
func (c *Channel) isHosted() bool { return c.apiURL == defaultAPIURL }

// fetchError returns why Telegram does not give a file, in words for the model.
func (c *Channel) fetchError(ctx context.Context, from ref, err error) error {
	refused := refusal(err)
	switch {
	case refused == nil || refused.Code != http.StatusBadRequest:
		return channels.TransferError(ctx, platform)
	case strings.Contains(strings.ToLower(refused.Message), "file is too big"):
		return errTooLarge
	}
	c.log.Warn("file refused", "chat", from.Chat, "message", from.Message, "error", err)
	return &files.GoneError{Words: "it is no longer on Telegram"}
}

// download opens a file on the Bot API server, and follows no redirect.
func (c *Channel) download(ctx context.Context, filePath string) (io.ReadCloser, error) {
	segments := strings.Split(filePath, "/")
	for i, s := range segments {
		if s == "" || s == "." || s == ".." {
			return nil, errors.New("its address can't be read")
		}
		segments[i] = url.PathEscape(s)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.apiURL+"/file/bot"+c.api.token+"/"+strings.Join(segments, "/"), nil)
	if err != nil {
		return nil, errors.New("its address can't be read")
	}
	resp, err := c.api.http.Do(req)
	if err != nil {
		return nil, channels.TransferError(ctx, platform)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the answer was %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return channels.Transfer(ctx, platform, resp.Body), nil
}

// isLocal reports whether a server names a file on its own disk, as one does that
// runs with --local.
func isLocal(filePath string) bool { return path.IsAbs(filePath) || filepath.IsAbs(filePath) }

// openLocal opens a file in the folder of the Bot API server, and nowhere else,
// whatever the server names. The folder may be mounted here under another name than
// there; below it, each bot has a folder named after its token.
func (c *Channel) openLocal(filePath string) (io.ReadCloser, error) {
	if c.apiFiles == "" {
		return nil, errors.New("api_files is not set in the section [telegram]")
	}
	_, inside, found := strings.Cut(filepath.ToSlash(filePath), "/"+c.api.token+"/")
	if !found {
		return nil, errors.New("the path that the Bot API server names has no folder of this bot")
	}
	root, err := os.OpenRoot(c.apiFiles)
	if err != nil {
		return nil, fmt.Errorf("api_files: %w", pathless(err))
	}
	defer root.Close()
	name := filepath.Join(c.api.token, filepath.FromSlash(inside))
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, pathless(err)
	case !info.Mode().IsRegular(): // opening a pipe would wait for its other end
		return nil, errors.New("the path that the Bot API server names is no file")
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, pathless(err)
	}
	return file, nil
}

// pathless returns an error without the path, which holds the token.
func pathless(err error) error {
	var in *fs.PathError
	if errors.As(err, &in) {
		return in.Err
	}
	return errors.New("reading failed")
}
