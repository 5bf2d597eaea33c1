package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation/metadata"
)

// Page is which page of a list is asked for.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most entries of a page"`
	Cursor string `query:"cursor" doc:"The field next of the previous page"`
	Order  string `query:"order" enum:"use,age" default:"use" doc:"use: the most recently used first; age: the newest first. With age, every entry that existed at the first page is listed exactly once"`
}

func (p Page) byAge() bool {
	return p.Order == "age"
}

// MetadataFilter reads the parameters metadata.NAME=VALUE of a query.
type MetadataFilter struct {
	wanted metadata.Filter
}

// metadataPrefix is before the name of what metadata must have.
const metadataPrefix = "metadata."

// Resolve reads the parameters. huma calls it with the request.
func (f *MetadataFilter) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	for name, values := range u.Query() {
		if name, ok := strings.CutPrefix(name, metadataPrefix); ok {
			if f.wanted == nil {
				f.wanted = metadata.Filter{}
			}
			f.wanted[name] = values[0]
		}
	}
	return nil
}

// metadataParam returns the documentation of a MetadataFilter.
func metadataParam(of string) *huma.Param {
	return &huma.Param{
		Name: metadataPrefix + "NAME", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Example: "planner",
		Description: "Only those where the metadata of " + of + " have this member, with this text, number or truth value. May be given for several names.",
	}
}

// refuseUnknown refuses query parameters that an operation does not have: a
// misspelled filter would otherwise match everything.
func refuseUnknown(api huma.API) func(ctx huma.Context, next func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		u := ctx.URL()
		query, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			_ = huma.WriteErr(api, ctx, http.StatusBadRequest, "The query can't be read: "+err.Error()+".") // it tells the log itself
			return
		}
		for name := range query {
			if !takes(ctx.Operation(), name) {
				_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "The query has an unknown parameter, "+shorten(name)+". Allowed: "+parameters(ctx.Operation())+".")
				return
			}
		}
		next(ctx)
	}
}

func takes(o *huma.Operation, name string) bool {
	for _, p := range o.Parameters {
		pattern, wild := strings.CutSuffix(p.Name, "NAME")
		if p.In == "query" && (p.Name == name || wild && strings.HasPrefix(name, pattern) && name != pattern) {
			return true
		}
	}
	return false
}

func parameters(o *huma.Operation) string {
	var names []string
	for _, p := range o.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}
