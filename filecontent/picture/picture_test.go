package picture

import (
	"bytes"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
	"testing"
)

func open(data []byte) func() io.Reader {
	return func() io.Reader { return bytes.NewReader(data) }
}

func pngOf(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// huge returns the beginning of a PNG of 30,000 by 30,000 pixels.
func huge() []byte {
	head := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x75\x30\x00\x00\x75\x30\x08\x06\x00\x00\x00")
	sum := crc32.ChecksumIEEE(head[12:])
	return append(head, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
}

func TestAPictureThatIsTooLargeIsRefusedByItsHeader(t *testing.T) {
	if _, err := Fits(bytes.NewReader(huge()), 1000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Fits: %v", err)
	}
	allocated := testing.AllocsPerRun(1, func() {
		if _, _, err := Fit(open(huge())); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Fit: %v", err)
		}
	})
	if allocated > 1000 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestABrokenPictureIsRefused(t *testing.T) {
	whole := pngOf(t, image.NewGray(image.Rect(0, 0, 100, 100)))
	for name, data := range map[string][]byte{
		"empty":   nil,
		"a page":  []byte("<html>"),
		"cut off": whole[:len(whole)-20],
		"zeros":   make([]byte, 1000),
		"gif":     []byte("GIF89a\xff\xff\xff\xff\xff\xff\xff"),
		"jpeg":    []byte("\xff\xd8\xff\xe0\x00\x10JFIF" + strings.Repeat("\x00", 100)),
	} {
		if _, _, err := Fit(open(data)); !errors.Is(err, ErrBroken) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALargePictureIsScaledDown(t *testing.T) {
	photo := image.NewRGBA(image.Rect(0, 0, 4000, 3000))
	for i := range photo.Pix {
		photo.Pix[i] = byte(i * i >> 8)
		if i%4 == 3 {
			photo.Pix[i] = 255
		}
	}
	var asJPEG, asGIF bytes.Buffer
	if err := jpeg.Encode(&asJPEG, photo, nil); err != nil {
		t.Fatal(err)
	}
	drawing := image.NewPaletted(image.Rect(0, 0, 3000, 100), color.Palette{color.White, color.Black})
	if err := gif.Encode(&asGIF, drawing, nil); err != nil {
		t.Fatal(err)
	}
	clear := image.NewNRGBA(image.Rect(0, 0, 2000, 10))
	for name, c := range map[string]struct {
		data          []byte
		width, height int
		mediaType     string
	}{
		"photo":       {asJPEG.Bytes(), MaxSide, 1176, "image/jpeg"},
		"drawing":     {asGIF.Bytes(), MaxSide, 52, "image/jpeg"},
		"transparent": {pngOf(t, clear), MaxSide, 7, "image/png"},
	} {
		if fits, err := Fits(bytes.NewReader(c.data), int64(len(c.data))); fits || err != nil {
			t.Errorf("%s fits as it is: %v", name, err)
		}
		data, mediaType, err := Fit(open(c.data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		config, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil || config.Width != c.width || config.Height != c.height || mediaType != c.mediaType || len(data) > MaxBytes {
			t.Errorf("%s: %dx%d %s with %d bytes, %v", name, config.Width, config.Height, mediaType, len(data), err)
		}
	}
}

func TestProgressivePicturesNeedMore(t *testing.T) {
	frame := func(marker byte) []byte { return []byte{0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, marker, 0, 11} }
	if isProgressive(frame(0xC0)) || !isProgressive(frame(0xC2)) || !isProgressive(nil) {
		t.Error("the frame header was not read")
	}
}
