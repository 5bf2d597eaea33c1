package pages_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"parley/pages"
)

func get(t *testing.T, path, encoding string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	pages.Assets().ServeHTTP(w, r)
	return w
}

// A browser loads each file once, compressed, and again only when it changes.
func TestAssetsAreKeptForEver(t *testing.T) {
	t.Parallel()
	w := get(t, pages.URL("base.css"), "gzip, br")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/css; charset=utf-8" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Errorf("Cache-Control %q", got)
	}
	packed, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	if plain := get(t, pages.URL("base.css"), "").Body.String(); plain != string(unpacked) {
		t.Error("the compressed file is another one")
	}
}

// A page that was loaded from an earlier version still finds its files, and the browser does not cache the
// new files under the old address.
func TestAnOldPageStillFindsItsFiles(t *testing.T) {
	t.Parallel()
	w := get(t, pages.AssetsPath+"000000000000/base.css", "")
	if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d, Cache-Control %q", w.Code, w.Header().Get("Cache-Control"))
	}
	for _, path := range []string{"", "x", "000/../pages.go", "000/nothing.js"} {
		if w := get(t, pages.AssetsPath+path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%q answers %d", path, w.Code)
		}
	}
}

// A browser that installs the page finds its icons.
func TestThePageCanBeInstalled(t *testing.T) {
	t.Parallel()
	w := get(t, pages.URL("app/manifest.webmanifest"), "")
	var manifest struct {
		Name, Display string
		Icons         []struct{ Src, Sizes, Type string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &manifest); err != nil {
		t.Fatal(err)
	}
	if w.Header().Get("Content-Type") != "application/manifest+json" || manifest.Display != "standalone" || len(manifest.Icons) < 3 {
		t.Errorf("%s: %+v", w.Header().Get("Content-Type"), manifest)
	}
	for _, icon := range manifest.Icons {
		name := path.Join("app", icon.Src)
		if got := get(t, pages.URL(name), "").Header().Get("Content-Type"); got != icon.Type {
			t.Errorf("%s is %s, the manifest says %s", name, got, icon.Type)
		}
	}
}

var elsewhere = regexp.MustCompile(`(?:url\(|@import|import\(|fetch\(|src=)\s*["'` + "`" + `]?https?:`)

// No style and no script asks another host for anything.
func TestAssetsNeedNoOtherHost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"base.css", "chat/chat.css", "theme.js", "code.js", "math.js", "time.js", "press.js", "vendor/katex/katex.css", "chat/main.js", "chat/stream.js", "chat/composer.js", "chat/files.js", "chat/commands.js", "chat/controls.js", "chat/list.js", "chat/changes.js", "chat/removal.js", "chat/toast.js", "chat/patch.js", "chat/keys.js", "chat/unsent.js",
		"console/console.css", "console/plots.js", "console/log.js", "vendor/uplot/uplot.js", "vendor/uplot/uplot.css"} {
		if found := elsewhere.FindString(get(t, pages.URL(name), "").Body.String()); found != "" {
			t.Errorf("%s has %s", name, strings.TrimSpace(found))
		}
	}
}
