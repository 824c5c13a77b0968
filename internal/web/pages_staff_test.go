package web_test

import (
	"net/http"
	"strings"
	"testing"
)

// Anyone may open the shells: they hold nothing, set no cookie, and a buyer's session
// changes nothing about them. Only the scan page may run WebAssembly.
func TestStaffPages(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		path, lang, want string
		wasm             bool
	}{
		{"/scan", "en", "Scan tickets", true},
		{"/scan", "zh-Hant", "驗票", true},
		{"/desk", "en", "Desk", false},
		{"/desk", "zh-Hant", "控制台", false},
	} {
		a := w.do(t, "GET", tc.path, "", "", "Accept-Language", tc.lang, "Cookie", "usher_session="+aliceToken)
		if a.status != http.StatusOK || !strings.Contains(a.body, tc.want) || strings.Contains(a.body, `id="signout"`) || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s in %s: %d %v", tc.path, tc.lang, a.status, a.header)
		}
		policy := a.header.Get("Content-Security-Policy")
		if strings.Contains(policy, "'wasm-unsafe-eval'") != tc.wasm || strings.Contains(policy, "'unsafe-eval'") || strings.Contains(policy, "unsafe-inline") {
			t.Errorf("%s: policy %q", tc.path, policy)
		}
		if p := a.header.Get("Permissions-Policy"); !strings.Contains(p, "camera=(self)") {
			t.Errorf("%s: %q", tc.path, p)
		}
	}
	if a := w.do(t, "GET", "/", "", ""); strings.Contains(a.header.Get("Content-Security-Policy"), "wasm") {
		t.Errorf("the shop's pages may run WebAssembly: %v", a.header)
	}
}

// The decoder comes from here, in the type that a browser compiles while it arrives.
func TestDecoderIsOurs(t *testing.T) {
	w := newWorld(t)
	a := w.do(t, "GET", "/static/zxing_reader.wasm", "", "")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/wasm" || !strings.HasPrefix(a.body, "\x00asm") {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := w.do(t, "GET", "/static/scan.js", "", ""); !strings.Contains(a.body, "zxing_reader.wasm") && !strings.Contains(a.body, "zxing_reader.js") {
		t.Error("the scan page names no decoder")
	}
}
