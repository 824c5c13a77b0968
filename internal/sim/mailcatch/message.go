package mailcatch

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

const (
	// A mail is cut where it exceeds these; none that usher sends comes near.
	depthMax = 8
	partsMax = 200
)

// message is a parsed mail. Parts that cannot be read are left out: a broken
// mail still shows what it has.
type message struct {
	Subject, MessageID, Date string
	From, To                 string
	Text, HTML               string
	parts                    []part
}

// part is an attachment or an inline file.
type part struct {
	name, contentType, contentID string
	inline                       bool
	body                         []byte
}

// decoder reads encoded words of any known charset.
var decoder = mime.WordDecoder{CharsetReader: charsetReader}

func charsetReader(charset string, r io.Reader) (io.Reader, error) {
	enc, err := htmlindex.Get(charset)
	if err != nil {
		return nil, err
	}
	return enc.NewDecoder().Reader(r), nil
}

func parse(raw []byte) *message {
	m := &message{}
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		m.Text = strings.ToValidUTF8(string(raw), "\ufffd")
		return m
	}
	header := func(name string) string {
		v, err := decoder.DecodeHeader(msg.Header.Get(name))
		if err != nil {
			v = msg.Header.Get(name)
		}
		return strings.ToValidUTF8(v, "\ufffd")
	}
	m.Subject, m.MessageID, m.Date = header("Subject"), header("Message-Id"), header("Date")
	m.From, m.To = header("From"), header("To")
	m.walk(get(msg.Header), msg.Body, 0)
	return m
}

// header reads a field of a message's or a part's header.
type header func(name string) string

func get(h map[string][]string) header {
	return func(name string) string {
		if v := h[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
}

// walk takes one entity in: a multipart is walked, a leaf is body or file.
func (m *message) walk(h header, body io.Reader, depth int) {
	mediaType, params, err := mime.ParseMediaType(h("Content-Type"))
	if err != nil {
		mediaType, params = "text/plain", nil
	}
	if strings.HasPrefix(mediaType, "multipart/") && depth < depthMax {
		r := multipart.NewReader(body, params["boundary"])
		for len(m.parts) < partsMax {
			p, err := r.NextRawPart()
			if err != nil {
				return
			}
			m.walk(get(p.Header), p, depth+1)
		}
		return
	}
	content := decodeBody(h("Content-Transfer-Encoding"), body)
	disposition, fileParams, err := mime.ParseMediaType(h("Content-Disposition"))
	if err != nil {
		disposition = ""
	}
	switch {
	case disposition == "" && mediaType == "text/plain" && m.Text == "":
		m.Text = decodeText(params["charset"], content)
	case disposition == "" && mediaType == "text/html" && m.HTML == "":
		m.HTML = decodeText(params["charset"], content)
	default:
		name, err := decoder.DecodeHeader(first(fileParams["filename"], params["name"], "file"))
		if err != nil {
			name = "file"
		}
		m.parts = append(m.parts, part{
			name: strings.ToValidUTF8(name, "\ufffd"), contentType: mediaType, body: content,
			contentID: strings.Trim(h("Content-Id"), "<> "), inline: disposition == "inline",
		})
	}
}

// decodeBody returns what could be decoded.
func decodeBody(encoding string, body io.Reader) []byte {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	b, _ := io.ReadAll(body) // what came before the damage is shown
	return b
}

func decodeText(charset string, b []byte) string {
	if charset != "" {
		if r, err := charsetReader(charset, bytes.NewReader(b)); err == nil {
			if text, err := io.ReadAll(r); err == nil {
				b = text
			}
		}
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// imageTypes are the inline files that an HTML mail may show.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// document returns the HTML to show in the sandboxed frame: inline images are
// put into it, because the frame may load nothing, and links open a new tab.
func (m *message) document() string {
	html := m.HTML
	for _, p := range m.parts {
		if p.contentID != "" && imageTypes[p.contentType] {
			data := "data:" + p.contentType + ";base64," + base64.StdEncoding.EncodeToString(p.body)
			html = strings.ReplaceAll(html, `"cid:`+p.contentID+`"`, `"`+data+`"`)
		}
	}
	const base = `<base target="_blank">`
	if before, after, ok := strings.Cut(html, "<head>"); ok {
		return before + "<head>" + base + after
	}
	return base + html
}
