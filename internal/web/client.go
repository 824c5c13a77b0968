package web

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientAddr returns the address of the person's side of the connection. What a
// header claims counts only as far as trusted proxies vouch for it: the list in
// X-Forwarded-For is read from the right, and the first address that is no
// trusted proxy is the client's.
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap()
	if !within(addr, trusted) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return addr
		}
		addr = hop.Unmap().WithZone("")
		if !within(addr, trusted) {
			return addr
		}
	}
	return addr
}

func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// addrKey is the key that an address is limited by: itself, or for IPv6 its /64,
// which is what one subscriber has.
func addrKey(addr netip.Addr) string {
	if !addr.Is6() {
		return addr.String()
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return addr.String()
	}
	return p.String()
}
