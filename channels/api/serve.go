package api

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/httpserver"
)

const (
	prefix   = "/api/v1"
	specPath = "/api/openapi"
)

// Serve adds the API to a server. It builds its handler with the first request.
func (c *Channel) Serve(server *httpserver.Server) {
	lazy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handler().ServeHTTP(w, r) })
	for _, o := range c.operations() {
		var options []httpserver.Option
		if o.MaxBodyBytes > 0 {
			options = append(options, httpserver.MaxBody(o.MaxBodyBytes))
		}
		var serve http.Handler = lazy
		if o.serve != nil {
			serve = o.serve
		}
		server.Handle(o.Method+" "+cmp.Or(o.pattern, o.Path), httpserver.Program, serve, options...)
	}
	server.Handle("GET "+specPath+".json", httpserver.Program, lazy)
	server.Handle("GET "+specPath+".yaml", httpserver.Program, lazy)
	server.Handle("GET /api/docs", httpserver.Person, lazy)
	server.Handle("GET /api/docs.css", httpserver.Public, http.HandlerFunc(docsStyle))
	server.ProblemsUnder("/v1/", writeOpenAIProblem)
	ofMCP := sync.OnceValue(c.serveMCP)
	server.Handle("POST "+mcpPath, httpserver.Program, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ofMCP().ServeHTTP(w, r) }))
}

// build returns the handler of requests.
func (c *Channel) build() http.Handler {
	mux := http.NewServeMux()
	api := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			Info: &huma.Info{Title: "Parley", Version: "1", Description: about},
			Components: &huma.Components{
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "The gateway's token, where one is configured"}},
			},
			Security: []map[string][]string{{"token": {}}},
			Tags:     tags,
		},
		OpenAPIPath:   specPath,
		Formats:       huma.DefaultFormats,
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{firstDetail, ownBodyProblem},
	})
	api.UseMiddleware(watchBody, refuseUnknown(api))
	all := c.operations()
	for _, o := range all {
		o.addTo(api)
	}
	mux.Handle("GET /api/docs", docs(api.OpenAPI(), all))
	return mux
}

// about is what the document says of the API in general.
const about = "Sessions, conversations and messages of the gateway. Programs talk in sessions whose keys begin with api:, and may read all others. " +
	"Errors are problem documents (RFC 9457). Times are RFC 3339 in UTC."

// operation is an endpoint and how it is registered.
type operation struct {
	huma.Operation
	told     []writtenAnswer
	register func(api huma.API, o huma.Operation)
	serve    http.HandlerFunc // handler that writes answers by itself; nil: the one that register adds
	pattern  string           // pattern for http.ServeMux; "" = the path of the operation
}

// writtenAnswer documents an answer that an operation writes itself.
type writtenAnswer struct {
	status      int
	description string
	body        any // a value of the type that is sent as JSON; "" if the answer is no JSON
	types       []string
}

// The types of most answers.
const (
	jsonType  = "application/json"
	eventType = "text/event-stream"
)

// tells documents an answer that the operation writes itself.
func (o operation) tells(status int, description string, body any, types ...string) operation {
	o.told = append(o.told, writtenAnswer{status, description, body, types})
	return o
}

// at has an operation served at a pattern of http.ServeMux that differs from its path.
func (o operation) at(pattern string) operation {
	o.pattern = pattern
	return o
}

// addTo registers the operation.
func (o operation) addTo(api huma.API) {
	o.Responses = map[string]*huma.Response{}
	for _, t := range o.told {
		r := &huma.Response{Description: t.description, Content: map[string]*huma.MediaType{}}
		for _, kind := range t.types {
			r.Content[kind] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
			if kind == jsonType && t.body != "" {
				r.Content[kind].Schema = api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(t.body), true, "")
			}
		}
		o.Responses[strconv.Itoa(t.status)] = r
	}
	o.register(api, o.Operation)
}

// bodyTime is how long the body of a request may take to come.
const bodyTime = 30 * time.Second

// endpoint returns the operation of a method of the channel.
func endpoint[I, O any](c *Channel, o huma.Operation, handle func(context.Context, *I) (*O, error)) operation {
	o.BodyReadTimeout = cmp.Or(o.BodyReadTimeout, bodyTime)
	return operation{Operation: o, register: func(api huma.API, o huma.Operation) {
		o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, httpserver.DefaultMaxBody) + 1 // the server's limit is met first
		huma.Register(api, o, func(ctx context.Context, in *I) (*O, error) {
			out, err := handle(ctx, in)
			if err != nil {
				return nil, c.problemOf(ctx, err)
			}
			return out, nil
		})
	}}
}
