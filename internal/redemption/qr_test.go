package redemption_test

import (
	"bytes"
	"encoding/xml"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"usher/internal/redemption"
)

// decodeQR reads a picture as a scanner would.
func decodeQR(t *testing.T, img image.Image) string {
	t.Helper()
	bmp, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		t.Fatalf("make bitmap: %v", err)
	}
	// The picture is the bare symbol: sampling its grid needs no search for corners,
	// which this reader sometimes gets wrong.
	res, err := qrcode.NewQRCodeReader().Decode(bmp, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return res.GetText()
}

func TestQRPNG(t *testing.T) {
	for _, scale := range []int{1, 2, 3, 8, 1000} {
		code := redemption.NewCode(concert)
		img, err := png.Decode(bytes.NewReader(redemption.QRPNG(code, scale)))
		if err != nil {
			t.Fatalf("scale %d: read PNG: %v", scale, err)
		}
		if got := decodeQR(t, img); got != code {
			t.Errorf("scale %d: decodes as %q, want %q", scale, got, code)
		}
		// A code fits the 25 modules of version 2, with 4 of quiet zone on each side.
		px := min(scale, 32)
		if side := img.Bounds().Dx(); side != 33*px {
			t.Errorf("scale %d: side is %d pixels, want %d", scale, side, 33*px)
		}
		for i := range 33 * px {
			if dark(img.At(i, 4*px-1)) || dark(img.At(4*px-1, i)) || dark(img.At(i, 29*px)) || dark(img.At(29*px, i)) {
				t.Fatalf("scale %d: the quiet zone is not white at %d", scale, i)
			}
		}
	}
	if small, err := png.Decode(bytes.NewReader(redemption.QRPNG("X", -3))); err != nil || small.Bounds().Dx() != 29 {
		t.Errorf("a scale below 1 does not draw one pixel to a module (%v)", err)
	}
}

func TestQRSVG(t *testing.T) {
	code := redemption.NewCode(concert)
	img := drawSVG(t, redemption.QRSVG(code))
	if got := decodeQR(t, img); got != code {
		t.Errorf("decodes as %q, want %q", got, code)
	}
}

func TestQRRefusesWhatIsNoCode(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("0", 257)} {
		if redemption.QRSVG(text) != nil || redemption.QRPNG(text, 4) != nil {
			t.Errorf("a text of %d bytes is drawn", len(text))
		}
	}
}

func dark(c color.Color) bool {
	r, _, _, _ := c.RGBA()
	return r < 0x8000
}

var (
	svgMove = regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`)
	svgBox  = regexp.MustCompile(`^0 0 (\d+) (\d+)$`)
)

// drawSVG paints the runs of the symbol's path at four pixels to a module.
func drawSVG(t *testing.T, svg []byte) image.Image {
	t.Helper()
	const scale = 4
	var doc struct {
		Box   string `xml:"viewBox,attr"`
		Paths []struct {
			Fill string `xml:"fill,attr"`
			D    string `xml:"d,attr"`
		} `xml:"path"`
	}
	if err := xml.Unmarshal(svg, &doc); err != nil {
		t.Fatalf("read SVG: %v", err)
	}
	box := svgBox.FindStringSubmatch(doc.Box)
	if box == nil || box[1] != "33" || box[2] != "33" || len(doc.Paths) != 2 || doc.Paths[0].Fill != "#fff" || doc.Paths[1].Fill != "#000" {
		t.Fatalf("SVG is not a white square of 33 modules with a black path: %+v", doc)
	}
	if rest := svgMove.ReplaceAllString(doc.Paths[1].D, ""); rest != "" {
		t.Fatalf("path has more than runs: %q", rest)
	}
	img := image.NewGray(image.Rect(0, 0, 33*scale, 33*scale))
	for i := range img.Pix {
		img.Pix[i] = 0xff
	}
	for _, m := range svgMove.FindAllStringSubmatch(doc.Paths[1].D, -1) {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1])
		}
		if n[2] != n[3] || n[0] < 4 || n[1] < 4 || n[0]+n[2] > 29 || n[1] > 28 {
			t.Fatalf("run %q leaves the symbol", m[0])
		}
		for y := n[1] * scale; y < (n[1]+1)*scale; y++ {
			for x := n[0] * scale; x < (n[0]+n[2])*scale; x++ {
				img.SetGray(x, y, color.Gray{})
			}
		}
	}
	return img
}
