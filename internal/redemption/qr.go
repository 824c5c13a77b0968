package redemption

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"

	"rsc.io/qr"
)

const (
	// qrQuiet is the white border around a symbol, in modules (ISO/IEC 18004 asks
	// for four).
	qrQuiet = 4
	// qrTextMax bounds what is drawn, in bytes: far above any code.
	qrTextMax = 256
	// qrScaleMax bounds the pixels of a module.
	qrScaleMax = 32
)

// encodeQR draws the text itself, never a link: whoever opens it changes
// nothing. It returns nil for text that is empty or longer than qrTextMax.
func encodeQR(text string) *qr.Code {
	if text == "" || len(text) > qrTextMax {
		return nil
	}
	symbol, err := qr.Encode(text, qr.M)
	if err != nil {
		return nil
	}
	return symbol
}

// QRSVG draws a code's text as a QR symbol: black on white with a quiet zone of
// four modules, one unit of its view box per module, without a fixed size. It
// returns nil for text that is empty or longer than 256 bytes.
func QRSVG(code string) []byte {
	symbol := encodeQR(code)
	if symbol == nil {
		return nil
	}
	side := symbol.Size + 2*qrQuiet
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges">`, side, side)
	fmt.Fprintf(&b, `<path fill="#fff" d="M0 0h%dv%dH0z"/><path fill="#000" d="`, side, side)
	for y := range symbol.Size {
		for x := 0; x < symbol.Size; x++ {
			run := 0
			for symbol.Black(x+run, y) {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", x+qrQuiet, y+qrQuiet, run, run)
				x += run
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return []byte(b.String())
}

// QRPNG draws a code's text as QRSVG does, as a PNG picture of two colours with
// scale pixels to a module (1 to 32, clamped).
func QRPNG(code string, scale int) []byte {
	symbol := encodeQR(code)
	if symbol == nil {
		return nil
	}
	scale = min(max(scale, 1), qrScaleMax)
	side := (symbol.Size + 2*qrQuiet) * scale
	// Index 0 is white, so the new picture is all quiet zone.
	img := image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.White, color.Black})
	for y := range side {
		row := img.Pix[y*img.Stride : y*img.Stride+side]
		for x := range row {
			if symbol.Black(x/scale-qrQuiet, y/scale-qrQuiet) {
				row[x] = 1
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil
	}
	return b.Bytes()
}
