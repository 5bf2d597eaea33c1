package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"testing"
)

// photo returns a JPEG of 200 by 100 pixels whose upper left quarter is white, with Exif data that
// gives its orientation.
func photo(t *testing.T, tiff string) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 200, 100))
	for y := range 50 {
		for x := range 100 {
			m.SetGray(x, y, color.Gray{255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	segment := "Exif\x00\x00" + tiff
	size := len(segment) + 2
	return append([]byte("\xFF\xD8\xFF\xE1"+string([]byte{byte(size >> 8), byte(size)})+segment), b.Bytes()[2:]...)
}

// A scaled photo has the orientation of its Exif data.
func TestScaledPhotoIsUpright(t *testing.T) {
	t.Parallel()
	for turn, white := range []string{1: "top left", 2: "top right", 3: "bottom right", 4: "bottom left", 5: "top left", 6: "top right", 7: "bottom right", 8: "bottom left"} {
		if turn == 0 {
			continue
		}
		big := "MM\x00*\x00\x00\x00\x08\x00\x02\x01\x0F\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x01\x12\x00\x03\x00\x00\x00\x01\x00" + string([]byte{byte(turn)}) + "\x00\x00"
		little := "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string([]byte{byte(turn)}) + "\x00\x00\x00"
		for _, tiff := range []string{big, little} {
			data, _, err := Fit(open(photo(t, tiff)))
			if err != nil {
				t.Fatal(err)
			}
			m, err := jpeg.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			width, height := m.Bounds().Dx(), m.Bounds().Dy()
			if upright := height > width; upright != (turn >= 5) {
				t.Errorf("turn %d: %d by %d pixels", turn, width, height)
			}
			for corner, at := range map[string]image.Point{"top left": {9, 9}, "top right": {width - 9, 9}, "bottom left": {9, height - 9}, "bottom right": {width - 9, height - 9}} {
				if level, _, _, _ := m.At(at.X, at.Y).RGBA(); (level > 0x8000) != (corner == white) {
					t.Errorf("turn %d: the %s is %x, and the %s should be white", turn, corner, level, white)
				}
			}
		}
	}
}

// Invalid Exif data does not rotate a photo.
func TestInvalidExifDataRotatesNothing(t *testing.T) {
	t.Parallel()
	for _, tiff := range []string{"", "MM", "II*\x00\xFF\xFF\xFF\xFF", "II*\x00\x08\x00\x00\x00\xFF\xFF\x12\x01", "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x09\x00\x00\x00"} {
		if turn := orientation(bytes.NewReader(photo(t, tiff))); turn != 1 {
			t.Errorf("%q: %d", tiff, turn)
		}
	}
	for _, data := range []string{"", "\xFF\xD8", "\xFF\xD8\xFF\xE1\x00\x00", "\xFF\xD8\xFF\xE1\xFF\xFFExif\x00\x00II*\x00", "GIF89a"} {
		if turn := orientation(bytes.NewReader([]byte(data))); turn != 1 {
			t.Errorf("%q: %d", data, turn)
		}
	}
}
