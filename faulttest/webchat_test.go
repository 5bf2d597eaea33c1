package faulttest

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// webChat is a chat in the browser with the gateway's binary.
type webChat struct {
	t  *testing.T
	gw *gatewaytest.Gateway
}

func newWebChat(t *testing.T) *webChat {
	t.Helper()
	c := &webChat{t, gatewaytest.New(t, gatewaytest.Options{Config: gatewaytest.OpenToAll})}
	c.gw.Model.Reply(llmtest.Echo)
	c.gw.Start()
	return c
}

// post sends a form of the chat's page.
func (c *webChat) post(action string, fields url.Values) error {
	return postForm(c.gw.URL+"/chat/v/"+action, fields, "", nil)
}

// postForm sends a form of a page, with the contents of a file if it has a name.
func postForm(address string, fields url.Values, file string, contents []byte) error {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name := range fields {
		if err := w.WriteField(name, fields.Get(name)); err != nil {
			return err
		}
	}
	if file != "" {
		part, err := w.CreateFormFile("file", file)
		if err != nil {
			return err
		}
		if _, err := part.Write(contents); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	answer, err := http.Post(address, w.FormDataContentType(), &form)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s is answered %s", address, answer.Status)
	}
	return nil
}

func (c *webChat) page() string { return gatewaytest.NewBrowser(c.t, c.gw.URL).Page("/chat/v") }

// shown returns what the page shows.
func (c *webChat) shown() []string { return versionsShown(c.page()) }

// await waits until the last message begins with a text.
func (c *webChat) await(last string) {
	c.t.Helper()
	gatewaytest.Await(c.t, last, func() bool { list := c.shown(); return len(list) > 0 && strings.HasPrefix(list[len(list)-1], last) })
}

var userSeq = regexp.MustCompile(`<li class="user"[^>]* data-seq="(\d+)"`)

// newestSeq returns the seq of the newest message of a person.
func (c *webChat) newestSeq() string {
	c.t.Helper()
	all := userSeq.FindAllStringSubmatch(c.page(), -1)
	if len(all) == 0 {
		c.t.Fatal("the page shows no message of a person")
	}
	return all[len(all)-1][1]
}

func (c *webChat) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// expectWhole verifies the database with `gateway verify`. No gateway may run.
func (c *webChat) expectWhole() {
	c.t.Helper()
	if said := c.gw.MustRun("verify"); !strings.Contains(said, "is whole") {
		c.t.Errorf("gateway verify: %s", said)
	}
}
