// Package picture makes pictures fit for models: not larger than providers take, in a
// form that they read. How much memory a picture needs is known from its header, so
// that one which is too large is refused before it is decoded.
package picture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	_ "image/gif" // decoded as their first frame
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"
)

const (
	// MaxSide is the longest side of a picture for a model, in pixels. Anthropic scales
	// down what is larger, and OpenAI what has a side over 2048:
	// https://docs.anthropic.com/en/docs/build-with-claude/vision#evaluate-image-size
	MaxSide = 1568
	// MaxBytes is the most that a picture for a model has. Anthropic refuses 5 MiB in
	// base64, which makes a third more of it.
	MaxBytes = 3 << 20
	// maxMemory is how many bytes a decoded picture may take.
	maxMemory = 192 << 20
)

// ErrTooLarge says that a picture has more pixels than are decoded.
var ErrTooLarge = errors.New("it has too many pixels")

// ErrBroken says that a picture can't be decoded.
var ErrBroken = errors.New("it is broken")

// Fits reports whether a picture can be sent to a model as it is: by its header, in
// r, and its size in bytes. The error is ErrTooLarge or ErrBroken.
func Fits(r io.Reader, size int64) (bool, error) {
	config, need, err := header(r)
	if err != nil {
		return false, err
	}
	if need > maxMemory {
		return false, ErrTooLarge
	}
	return size <= MaxBytes && max(config.Width, config.Height) <= MaxSide, nil
}

// header reads the header of a picture and returns how many bytes its decoding takes.
func header(r io.Reader) (config image.Config, need int64, err error) {
	var head bytes.Buffer
	config, format, err := image.DecodeConfig(io.TeeReader(io.LimitReader(r, maxHeader), &head))
	if err != nil || config.Width <= 0 || config.Height <= 0 {
		return config, 0, ErrBroken
	}
	return config, int64(config.Width) * int64(config.Height) * bytesPerPixel(config, format, head.Bytes()), nil
}

// maxHeader is how far into a file the header is looked for: photos have their
// metadata before it.
const maxHeader = 4 << 20

// bytesPerPixel returns how many bytes the decoder takes for a pixel, at most.
func bytesPerPixel(config image.Config, format string, head []byte) int64 {
	switch {
	case format == "jpeg" && isProgressive(head):
		return 15 // three bytes, and three coefficients of four
	case format == "jpeg":
		return 3
	case format == "gif":
		return 5 // and drawn onto a canvas
	}
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		return 8
	}
	return 4
}

// isProgressive reports whether the frame header of a JPEG is that of a progressive
// one, SOF2: https://www.w3.org/Graphics/JPEG/itu-t81.pdf, B.2.2
func isProgressive(head []byte) bool {
	for at := 2; at+4 <= len(head); {
		if head[at] != 0xFF {
			return false
		}
		switch marker := head[at+1]; {
		case marker == 0xFF: // fill
			at++
			continue
		case marker == 0xC2:
			return true
		case marker == 0xC0 || marker == 0xC1 || marker == 0xDA:
			return false
		}
		at += 2 + int(binary.BigEndian.Uint16(head[at+2:]))
	}
	return true // not found: the more careful guess
}

// Fit decodes a picture and returns it no larger than MaxSide and MaxBytes, upright, as PNG
// or JPEG. open opens the picture from its beginning, each time anew. The error is
// ErrTooLarge, ErrBroken or one of reading.
func Fit(open func() io.Reader) (data []byte, mediaType string, err error) {
	_, need, err := header(open())
	if err != nil {
		return nil, "", err
	}
	if need > maxMemory {
		return nil, "", ErrTooLarge
	}
	decoded, _, err := image.Decode(bufio.NewReaderSize(open(), 64<<10))
	if err != nil {
		return nil, "", ErrBroken
	}
	turn := orientation(open())
	for side := MaxSide; ; side = side * 3 / 4 {
		scaled := turned(scale(decoded, side), turn)
		if data, mediaType, err = encode(scaled); err != nil || len(data) <= MaxBytes || side < 64 {
			return data, mediaType, err
		}
	}
}

// Check returns ErrBroken when a picture can't be decoded. The caller knows from Fits
// that it is not too large.
func Check(r io.Reader) error {
	if _, _, err := image.Decode(bufio.NewReaderSize(r, 64<<10)); err != nil {
		return ErrBroken
	}
	return nil
}

// scale returns a picture whose longer side has at most so many pixels.
func scale(from image.Image, side int) *image.NRGBA {
	bounds := from.Bounds()
	width, height := bounds.Dx(), bounds.Dy()
	if longer := max(width, height); longer > side {
		width, height = max(1, width*side/longer), max(1, height*side/longer)
	}
	to := image.NewNRGBA(image.Rect(0, 0, width, height))
	if width == bounds.Dx() && height == bounds.Dy() {
		draw.Draw(to, to.Bounds(), from, bounds.Min, draw.Src)
	} else {
		draw.ApproxBiLinear.Scale(to, to.Bounds(), from, bounds, draw.Src, nil)
	}
	return to
}

// encode returns a picture as a JPEG, or as a PNG where parts of it are transparent.
func encode(m *image.NRGBA) (data []byte, mediaType string, err error) {
	var b bytes.Buffer
	if m.Opaque() {
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 85})
		return b.Bytes(), "image/jpeg", err
	}
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	err = encoder.Encode(&b, m)
	return b.Bytes(), "image/png", err
}
