package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"io"
)

// orientation returns how the pixels of a JPEG have to be turned for it to be seen as it was
// taken, from 1 to 8, as its Exif data says; 1 is as they are. Cameras and phones store
// their pixels as the sensor has them. Exif 2.32, 4.6.4: https://www.cipa.jp/std/documents/e/DC-X008-Translation-2019-E.pdf
func orientation(r io.Reader) int {
	head, err := io.ReadAll(io.LimitReader(r, maxExif))
	if err != nil || !bytes.HasPrefix(head, []byte("\xFF\xD8")) {
		return 1
	}
	for at := 2; at+4 <= len(head) && head[at] == 0xFF; {
		marker, size := head[at+1], int(binary.BigEndian.Uint16(head[at+2:]))
		if marker == 0xDA || size < 2 { // the pixels begin
			break
		}
		segment := head[min(at+4, len(head)):min(at+2+size, len(head))]
		if tiff, found := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); marker == 0xE1 && found {
			return orientationIn(tiff)
		}
		at += 2 + size
	}
	return 1
}

// maxExif is how far into a file its Exif data is looked for: it is one of the first
// segments, which have up to 64 KiB each.
const maxExif = 256 << 10

// orientationIn reads the tag of the orientation in the first directory of Exif data.
func orientationIn(tiff []byte) int {
	var order binary.ByteOrder = binary.BigEndian
	if bytes.HasPrefix(tiff, []byte("II")) {
		order = binary.LittleEndian
	}
	if len(tiff) < 8 {
		return 1
	}
	directory := int(order.Uint32(tiff[4:]))
	if directory < 8 || directory+2 > len(tiff) {
		return 1
	}
	count := int(order.Uint16(tiff[directory:]))
	for at := directory + 2; count > 0 && at+12 <= len(tiff); at, count = at+12, count-1 {
		if order.Uint16(tiff[at:]) == 0x0112 {
			if turn := int(order.Uint16(tiff[at+8:])); turn >= 1 && turn <= 8 {
				return turn
			}
			return 1
		}
	}
	return 1
}

// turned returns a picture as its orientation says.
func turned(from *image.NRGBA, orientation int) *image.NRGBA {
	if orientation == 1 {
		return from
	}
	width, height := from.Rect.Dx(), from.Rect.Dy()
	to := image.NewNRGBA(image.Rect(0, 0, width, height))
	if orientation >= 5 { // its sides change places
		to = image.NewNRGBA(image.Rect(0, 0, height, width))
	}
	for y := range height {
		for x := range width {
			atX, atY := turnedPoint(x, y, width-1, height-1, orientation)
			to.SetNRGBA(atX, atY, from.NRGBAAt(from.Rect.Min.X+x, from.Rect.Min.Y+y))
		}
	}
	return to
}

// turnedPoint returns where a pixel goes; right and bottom are the last column and row.
func turnedPoint(x, y, right, bottom, orientation int) (atX, atY int) {
	switch orientation {
	case 2:
		return right - x, y
	case 3:
		return right - x, bottom - y
	case 4:
		return x, bottom - y
	case 5:
		return y, x
	case 6:
		return bottom - y, x
	case 7:
		return bottom - y, right - x
	case 8:
		return y, right - x
	}
	return x, y
}
