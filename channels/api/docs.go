package api

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed html
var embedded embed.FS

// docs serves the OpenAPI document as a page without scripts.
func docs(spec *huma.OpenAPI, all []operation) http.Handler {
	var page bytes.Buffer
	t := template.Must(template.ParseFS(embedded, "html/docs.html"))
	if err := t.Execute(&page, docsPage{spec.Info.Title, spec.Info.Description, groupsOf(spec, all)}); err != nil {
		panic(err) // the page is part of the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page.Bytes()) // a client that is gone needs no answer
	})
}

func docsStyle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=3600")
	http.ServeFileFS(w, r, embedded, "html/docs.css")
}

type docsPage struct {
	Title, About string
	Groups       []docsGroup
}

type docsGroup struct {
	Name, About string
	Operations  []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, About string
	Parameters, Body                 []docsField
	Answers                          []docsAnswer
}

type docsField struct {
	Name, In, Type, About string
	Required              bool
}

type docsAnswer struct {
	Status, About, Types string
	Fields               []docsField
}

func groupsOf(spec *huma.OpenAPI, all []operation) []docsGroup {
	var groups []docsGroup
	for _, tag := range spec.Tags {
		group := docsGroup{Name: tag.Name, About: tag.Description}
		for _, o := range all {
			if slices.Contains(o.Tags, tag.Name) {
				group.Operations = append(group.Operations, docsOf(spec, documented(spec, o)))
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// documented returns an operation as it was registered.
func documented(spec *huma.OpenAPI, o operation) *huma.Operation {
	at := spec.Paths[o.Path]
	return map[string]*huma.Operation{
		http.MethodGet: at.Get, http.MethodPost: at.Post, http.MethodPut: at.Put, http.MethodPatch: at.Patch, http.MethodDelete: at.Delete,
	}[o.Method]
}

func docsOf(spec *huma.OpenAPI, o *huma.Operation) docsOperation {
	d := docsOperation{ID: o.OperationID, Method: o.Method, Path: o.Path, Summary: o.Summary, About: o.Description}
	for _, p := range o.Parameters {
		d.Parameters = append(d.Parameters, docsField{p.Name, p.In, typeOf(p.Schema), cmp.Or(p.Description, p.Schema.Description), p.Required})
	}
	if o.RequestBody != nil {
		d.Body = fieldsOf(spec, o.RequestBody.Content[jsonType])
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if status == "default" {
			continue
		}
		r := o.Responses[status]
		a := docsAnswer{Status: status, About: r.Description, Types: strings.Join(slices.Sorted(maps.Keys(r.Content)), ", ")}
		if status < "300" {
			a.Fields = fieldsOf(spec, r.Content[jsonType])
		}
		d.Answers = append(d.Answers, a)
	}
	return d
}

// fieldsOf returns the fields of a JSON object, with those of the objects in it.
func fieldsOf(spec *huma.OpenAPI, media *huma.MediaType) []docsField {
	if media == nil || media.Schema == nil {
		return nil
	}
	var fields []docsField
	addFields(spec, &fields, "", media.Schema)
	return fields
}

const maxNesting = 4 // dots in the name of a field

func addFields(spec *huma.OpenAPI, fields *[]docsField, prefix string, s *huma.Schema) {
	s = resolved(spec, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		full := prefix + name
		of := resolved(spec, p)
		*fields = append(*fields, docsField{full, "", typeOf(of), cmp.Or(p.Description, of.Description), slices.Contains(s.Required, name)})
		if strings.Count(full, ".") >= maxNesting {
			continue
		}
		if of.Items != nil {
			addFields(spec, fields, full+"[].", of.Items)
		} else {
			addFields(spec, fields, full+".", of)
		}
	}
}

func resolved(spec *huma.OpenAPI, s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return spec.Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// typeOf returns the type of a value in a word or two.
func typeOf(s *huma.Schema) string {
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok {
				values = append(values, text)
			}
		}
		return strings.Join(values, " | ")
	case s.Items != nil:
		return "list"
	case s.Format == "date-time":
		return "time"
	case s.Type == "":
		return "JSON"
	}
	return s.Type
}
