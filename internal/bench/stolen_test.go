package bench

import "testing"

func TestStolenShare(t *testing.T) {
	before := parseCPUShares("cpu  100 10 50 800 20 5 5 10 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	after := parseCPUShares("cpu  150 10 70 850 20 5 5 90 7 0\n")
	if before != (cpuShares{1000, 10}) || after.stolenSince(before) != 0.4 {
		t.Errorf("%+v, then %+v: %v stolen", before, after, after.stolenSince(before))
	}
	for _, odd := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9"} {
		if got := parseCPUShares(odd); got != (cpuShares{}) || got.stolenSince(got) != 0 {
			t.Errorf("%q reads as %+v", odd, got)
		}
	}
}
