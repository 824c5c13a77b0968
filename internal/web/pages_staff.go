package web

import (
	"net/http"
	"strings"
)

// The pages of stewards and operators. They are empty shells that anyone may open:
// their scripts ask for a credential, keep it in the tab, and send it with every
// request, so that no cookie can be used against them.

// scanPolicy lets the scan page, and no other, run WebAssembly: the decoder that reads
// codes from the camera's picture where the browser has none of its own.
var scanPolicy = strings.Replace(pagePolicy, "script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'", 1)

func (s *Server) addStaffPages(mux *http.ServeMux) {
	mux.HandleFunc("GET /scan", s.scanPage)
	mux.HandleFunc("GET /desk", s.deskPage)
}

func (s *Server) scanPage(w http.ResponseWriter, r *http.Request) {
	v := s.newView(r, "scan", "scan.js")
	v.Staff, v.Policy = true, scanPolicy
	s.show(w, r, http.StatusOK, "scan.html", v)
}

func (s *Server) deskPage(w http.ResponseWriter, r *http.Request) {
	v := s.newView(r, "desk", "desk.js")
	v.Staff, v.Wide = true, true
	s.show(w, r, http.StatusOK, "desk.html", v)
}
