package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

//go:embed static dist templates texts
var files embed.FS

// asset is one file of the pages' own, as it goes out.
type asset struct {
	body  []byte
	media string
	// version names the content: a request that carries it may be cached for ever.
	version string
	// packed is the body compressed, at the first request that takes it.
	packed func() []byte
}

// assets are the files under static and dist by name, loaded once. What is built
// (dist) wins over what is written by hand.
type assets map[string]asset

// mediaTypes are named here: the system's own table may say something else.
var mediaTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
	".wasm": "application/wasm", ".svg": "image/svg+xml",
}

func loadAssets() assets {
	out := assets{}
	for name, body := range readFolder("static") {
		out[name] = newAsset(name, body, versionOf(body))
	}
	built := readFolder("dist")
	// Built files name each other, so they have one version together.
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(built)) {
		all = append(all, built[name]...)
	}
	version := versionOf(all)
	for name, body := range built {
		out[name] = newAsset(name, versionImports(name, body, built, version), version)
	}
	return out
}

func readFolder(folder string) map[string][]byte {
	out := map[string][]byte{}
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic("web: embedded files are missing: " + err.Error())
	}
	for _, e := range entries {
		body, err := fs.ReadFile(files, folder+"/"+e.Name())
		if err != nil {
			panic("web: embedded file cannot be read: " + err.Error())
		}
		out[e.Name()] = body
	}
	return out
}

func versionOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:6])
}

func newAsset(name string, body []byte, version string) asset {
	media, ok := mediaTypes[path.Ext(name)]
	if !ok {
		media = "application/octet-stream"
	}
	return asset{body: body, media: media, version: version, packed: sync.OnceValue(func() []byte { return pack(body) })}
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic("web: gzip: " + err.Error())
	}
	// Writing into memory does not fail.
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

var reImport = regexp.MustCompile("([\"'`])\\./([\\w.-]+)([\"'`])")

// versionImports gives the version to the built files that a script imports: their
// names are stable, and a cache must not pair files of two builds.
func versionImports(name string, body []byte, built map[string][]byte, version string) []byte {
	if path.Ext(name) != ".js" {
		return body
	}
	return reImport.ReplaceAllFunc(body, func(m []byte) []byte {
		parts := reImport.FindSubmatch(m)
		if _, ok := built[string(parts[2])]; !ok {
			return m
		}
		return fmt.Appendf(nil, "%s./%s?v=%s%s", parts[1], parts[2], version, parts[3])
	})
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
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=0, must-revalidate")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+f.version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.media)
	body := f.body
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.packed()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		// A reader that went away is no failure of ours.
		_, _ = w.Write(body)
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
