package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// The tests of this package send HTTP requests to the real gateway, whose model server the tests
// control.

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// gateway is a gateway with a folder and a model of its own.
type gateway struct {
	t     *testing.T
	gw    *gatewaytest.Gateway
	model *llmtest.Server
	url   string // without a slash at its end
}

// token is what programs send when a test asks for one.
const token = "a-token-of-the-api-tests"

// start starts a gateway that asks for no token. The sections are further ones
// of its configuration.
func start(t *testing.T, sections ...string) *gateway {
	t.Helper()
	return startHTTP(t, `auth = "none"`, sections...)
}

// startHTTP is start with keys of the section [http].
func startHTTP(t *testing.T, keys string, sections ...string) *gateway {
	t.Helper()
	gw := gatewaytest.Start(t, gatewaytest.Options{Config: "[http]\n" + keys + "\n" + strings.Join(sections, "\n")})
	t.Cleanup(func() {
		for _, failure := range []string{"API request failed", "request handler panicked"} {
			if strings.Contains(gw.Log.String(), failure) {
				t.Errorf("the log shows %q", failure)
			}
		}
	})
	return &gateway{t: t, gw: gw, model: gw.Model, url: gw.URL}
}

func (g *gateway) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// object is a JSON object.
type object = map[string]any

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	text   string
	object object // of JSON
}

// header is "Name: value".
func (g *gateway) request(method, path, body string, headers ...string) *http.Request {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 3*time.Minute) // also of a stream, whose end a test waits for
	g.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, g.url+path, strings.NewReader(body))
	g.must(err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	return request
}

func (g *gateway) do(method, path, body string, headers ...string) reply {
	g.t.Helper()
	answer, err := http.DefaultClient.Do(g.request(method, path, body, headers...))
	g.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	g.must(err)
	r := reply{status: answer.StatusCode, header: answer.Header, text: string(text)}
	if strings.Contains(answer.Header.Get("Content-Type"), "json") {
		_ = json.Unmarshal(text, &r.object) // of lines of JSON it stays empty
	}
	return r
}

// ask sends a message in a session, and returns the answer.
func (g *gateway) ask(key, text string, headers ...string) reply {
	g.t.Helper()
	return g.post(key, object{"text": text}, headers...)
}

func (g *gateway) post(key string, body object, headers ...string) reply {
	g.t.Helper()
	text, err := json.Marshal(body)
	g.must(err)
	return g.do("POST", "/api/v1/sessions/"+key+"/messages", string(text), headers...)
}

func (g *gateway) get(path string) object {
	g.t.Helper()
	r := g.do("GET", "/api/v1"+path, "")
	if r.status != http.StatusOK {
		g.t.Fatalf("GET %s: %d %s", path, r.status, r.text)
	}
	return r.object
}

// contents are the messages of a list, as "role: content".
func contents(list object) (all []string) {
	for _, m := range list["messages"].([]any) {
		all = append(all, fmt.Sprint(m.(object)["role"], ": ", m.(object)["content"]))
	}
	return all
}

// `gateway health` tells the operator that the API is served.
func TestHealthListsTheAPI(t *testing.T) {
	t.Parallel()
	g := start(t)
	gatewaytest.Await(t, "health to name the API", func() bool {
		return strings.Contains(g.gw.MustRun("health"), "api: serving since ")
	})
}
