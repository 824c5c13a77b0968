package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
)

//go:embed static templates
var files embed.FS

// asset is one file of the pages' own, as it goes out.
type asset struct {
	body  []byte
	media string
	// version names the content: a request that carries it may be cached for ever.
	version string
}

// assets are the files under static by name, loaded once.
type assets map[string]asset

func loadAssets() assets {
	out := assets{}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic("web: embedded files are missing: " + err.Error())
	}
	for _, e := range entries {
		body, err := fs.ReadFile(files, "static/"+e.Name())
		if err != nil {
			panic("web: embedded file cannot be read: " + err.Error())
		}
		sum := sha256.Sum256(body)
		media := mime.TypeByExtension(path.Ext(e.Name()))
		if path.Ext(e.Name()) == ".js" {
			// The system's own table may say something else.
			media = "text/javascript; charset=utf-8"
		}
		out[e.Name()] = asset{body: body, media: media, version: hex.EncodeToString(sum[:6])}
	}
	return out
}

// url is the address that a page names: it changes with the content.
func (a assets) url(name string) string {
	f, ok := a[name]
	if !ok {
		panic("web: no file " + name)
	}
	return "/static/" + name + "?v=" + f.version
}

func (a assets) serve(w http.ResponseWriter, r *http.Request) {
	f, ok := a[r.PathValue("name")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+f.version+`"`)
	h.Set("Cache-Control", "public, max-age=0, must-revalidate")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+f.version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.media)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	if r.Method != http.MethodHead {
		// A reader that went away is no failure of ours.
		_, _ = w.Write(f.body)
	}
}

var inlineParts = regexp.MustCompile(`(?s)<(script|style)>(.*?)</(?:script|style)>`)

// waitingPage serves the queue page: one static file, the same for every event,
// language and person, so that a cache can hold it. Its own script and style are
// allowed by their hashes and nothing else is.
func (a assets) waitingPage() http.HandlerFunc {
	f := a["queue.html"]
	policy := map[string]string{}
	for _, m := range inlineParts.FindAllSubmatch(f.body, -1) {
		sum := sha256.Sum256(m[2])
		policy[string(m[1])] += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	csp := "default-src 'none'; script-src" + policy["script"] + "; style-src" + policy["style"] +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	body := bytes.TrimSpace(f.body)
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "public, max-age=60, stale-while-revalidate=600, stale-if-error=86400")
		h.Set("ETag", `"`+f.version+`"`)
		if r.Header.Get("If-None-Match") == `"`+f.version+`"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method != http.MethodHead {
			// A reader that went away is no failure of ours.
			_, _ = w.Write(body)
		}
	}
}
