package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// The page that describes the API shows every operation of the OpenAPI document,
// and needs nothing but itself and one style sheet of this server.
func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	g := start(t)
	spec := g.do("GET", "/api/openapi.json", "")
	if version, _ := spec.object["openapi"].(string); !strings.HasPrefix(version, "3.1") {
		t.Fatalf("%d %.300s", spec.status, spec.text)
	}
	if yaml := g.do("GET", "/api/openapi.yaml", ""); yaml.status != http.StatusOK || !strings.Contains(yaml.text, "post-message") {
		t.Errorf("%d %.300s", yaml.status, yaml.text)
	}
	page := g.do("GET", "/api/docs", "", "Accept: text/html")
	operations := 0
	for path, item := range spec.object["paths"].(object) {
		for _, o := range item.(object) {
			operations++
			o := o.(object)
			if !strings.Contains(page.text, `id="`+o["operationId"].(string)+`"`) || !strings.Contains(page.text, "<code>"+path+"</code>") {
				t.Errorf("the page lacks %s", o["operationId"])
			}
			if o["summary"] == nil || o["tags"] == nil {
				t.Errorf("%s is not described", o["operationId"])
			}
		}
	}
	if operations < 20 {
		t.Errorf("%d operations", operations)
	}
	for _, needs := range []string{"<script", "style=", "<style", "http://", "https://", "onclick"} {
		if strings.Contains(page.text, needs) {
			t.Errorf("the page has %q", needs)
		}
	}
	if style := g.do("GET", "/api/docs.css", ""); style.status != http.StatusOK || !strings.Contains(style.header.Get("Content-Type"), "css") {
		t.Errorf("%d %v", style.status, style.header)
	}
}
