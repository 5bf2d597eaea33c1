package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var embedded embed.FS

// AssetsPath is the path below which Assets serves.
const AssetsPath = "/assets/"

// asset is a file as it is sent.
type asset struct {
	mediaType string
	plain     []byte
	gzipped   []byte // nil where it would save nothing
}

// assets holds all files by name, and a version that changes with any of them.
// The version is part of every address, so that scripts may import each other by
// relative names and a browser may cache each file for ever.
type assets struct {
	version string
	files   map[string]asset
}

// loadAssets reads and compresses the files when the first page is asked for.
var loadAssets = sync.OnceValue(func() assets {
	all := assets{files: map[string]asset{}}
	sum := sha256.New()
	packer, _ := gzip.NewWriterLevel(nil, gzip.BestCompression) // a level that exists
	err := fs.WalkDir(embedded, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "assets/")
		sum.Write([]byte(name))
		sum.Write(data)
		all.files[name] = newAsset(name, data, packer)
		return nil
	})
	if err != nil {
		panic("the files that are part of this program can't be read: " + err.Error())
	}
	all.version = hex.EncodeToString(sum.Sum(nil)[:6])
	return all
})

// mediaTypes are named here, because those of the machine may be wrong, and a
// browser that is told not to guess runs no script of a wrong type.
var mediaTypes = map[string]string{
	".css":         "text/css; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".svg":         "image/svg+xml",
	".webmanifest": "application/manifest+json",
	".png":         "image/png",
	".woff2":       "font/woff2",
}

// newAsset compresses a file. All files share one packer, since each takes a
// megabyte.
func newAsset(name string, data []byte, packer *gzip.Writer) asset {
	a := asset{mediaType: mediaTypes[path.Ext(name)], plain: data}
	if a.mediaType == "" {
		a.mediaType = "text/plain; charset=utf-8"
	}
	var packed bytes.Buffer
	packer.Reset(&packed)
	_, _ = packer.Write(data) // into memory
	_ = packer.Close()
	if packed.Len() < len(data) {
		a.gzipped = bytes.Clone(packed.Bytes())
	}
	return a
}

// URL returns the address of an asset, such as "chat/chat.css". It panics for an
// unknown name, which is a mistake in a template.
func URL(name string) string {
	all := loadAssets()
	if _, known := all.files[name]; !known {
		panic("no asset is called " + name)
	}
	return AssetsPath + all.version + "/" + name
}

// Assets serves the assets, which browsers may cache for ever. A request for
// another version, from a page that was open while the gateway was replaced, gets
// the present files without the permission to cache them.
func Assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := loadAssets()
		version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, AssetsPath), "/")
		file, known := all.files[name]
		if !known {
			http.NotFound(w, r)
			return
		}
		header := w.Header()
		header.Set("Content-Type", file.mediaType)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Vary", "Accept-Encoding")
		header.Set("Cache-Control", "no-cache")
		if version == all.version {
			header.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		body := file.plain
		if file.gzipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			header.Set("Content-Encoding", "gzip")
			body = file.gzipped
		}
		_, _ = w.Write(body) // a browser that went away misses nothing
	})
}
