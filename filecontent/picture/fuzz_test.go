package picture

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
)

// A picture that is not refused by its header is decoded without more than its size lets expect, and
// is one that models take afterwards.
func FuzzFit(f *testing.F) {
	small := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White, color.Transparent})
	for _, encode := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return png.Encode(b, small) },
		func(b *bytes.Buffer) error { return png.Encode(b, image.NewNRGBA64(small.Rect)) },
		func(b *bytes.Buffer) error { return gif.Encode(b, small, nil) },
		func(b *bytes.Buffer) error { return jpeg.Encode(b, small, nil) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		if bytes.HasPrefix(b.Bytes(), []byte("\xFF\xD8")) { // turned by its Exif data
			exif := "\xFF\xE1\x00\x22Exif\x00\x00MM\x00\x2A\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
			f.Add([]byte("\xFF\xD8" + exif + b.String()[2:]))
		}
	}
	for _, webp := range []string{ // lossy, lossless: one pixel each
		"UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA", "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
	} {
		data, err := base64.StdEncoding.DecodeString(webp)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, need, err := header(bytes.NewReader(data))
		if err != nil || need > 1<<22 {
			return
		}
		fits, err := Fits(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatalf("the header is read once, and then: %v", err)
		}
		if fits != (max(config.Width, config.Height) <= MaxSide && len(data) <= MaxBytes) {
			t.Errorf("fits: %v of %d by %d pixels", fits, config.Width, config.Height)
		}
		fit, mediaType, err := Fit(open(data))
		if broken := Check(bytes.NewReader(data)); (err == nil) != (broken == nil) {
			t.Errorf("Fit: %v, Check: %v", err, broken)
		}
		if err != nil {
			return
		}
		made, format, err := image.DecodeConfig(bytes.NewReader(fit))
		if err != nil || mediaType != "image/"+format || max(made.Width, made.Height) > MaxSide || len(fit) > MaxBytes {
			t.Errorf("%d bytes of %s, %d by %d, %v", len(fit), mediaType, made.Width, made.Height, err)
		}
	})
}
