package web

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestClientAddr(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for name, tc := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"direct":                          {"203.0.113.7:5", nil, "203.0.113.7"},
		"a stranger's header is no proof": {"203.0.113.7:5", []string{"198.51.100.1"}, "203.0.113.7"},
		"behind a proxy":                  {"10.0.0.1:5", []string{"198.51.100.1"}, "198.51.100.1"},
		"forged on the left":              {"10.0.0.1:5", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		"two proxies":                     {"10.0.0.1:5", []string{"198.51.100.1, 10.2.3.4"}, "198.51.100.1"},
		"two headers":                     {"10.0.0.1:5", []string{"1.1.1.1", "198.51.100.1"}, "198.51.100.1"},
		"broken":                          {"10.0.0.1:5", []string{"198.51.100.1, nonsense"}, "10.0.0.1"},
		"missing":                         {"10.0.0.1:5", nil, "10.0.0.1"},
		"only proxies":                    {"10.0.0.1:5", []string{"10.9.9.9"}, "10.9.9.9"},
		"mapped":                          {"[::ffff:10.0.0.1]:5", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"six":                             {"[::1]:5", []string{"2001:db8::1"}, "2001:db8::1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tc.remote
			for _, f := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			if got := clientAddr(r, trusted).String(); got != tc.want {
				t.Errorf("client address %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAddrKey(t *testing.T) {
	for addr, want := range map[string]string{
		"198.51.100.1":           "198.51.100.1",
		"2001:db8:1:2:3:4:5:6":   "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::1":   "2001:db8:1:2::/64",
		"2001:db8:1:3:3:4:5:6":   "2001:db8:1:3::/64",
		"fe80::1:2:3:4":          "fe80::/64",
		"2001:db8:1:2:3:4:5:abc": "2001:db8:1:2::/64",
	} {
		if got := addrKey(netip.MustParseAddr(addr)); got != want {
			t.Errorf("addrKey(%s) = %s, want %s", addr, got, want)
		}
	}
}
