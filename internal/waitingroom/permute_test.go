package waitingroom_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"usher/internal/waitingroom"
)

func testKey(n uint64) [32]byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return sha256.Sum256(b[:])
}

// wantBijection proves that every number below size is given exactly once.
func wantBijection(t *testing.T, key [32]byte, size uint64) {
	t.Helper()
	seen := make([]bool, size)
	for n := range size {
		p := waitingroom.Permute(key, size, n)
		if p >= size || seen[p] {
			t.Fatalf("size %d: %d maps to %d, which is outside or taken", size, n, p)
		}
		seen[p] = true
	}
}

func TestPermuteIsABijection(t *testing.T) {
	for size := uint64(1); size <= 2000; size++ {
		wantBijection(t, testKey(size), size)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		size := 2001 + rng.Uint64N(60_000)
		wantBijection(t, testKey(size), size)
	}
	wantBijection(t, testKey(0), 1<<16)
	wantBijection(t, testKey(0), 1<<16+1)
}

func TestPermuteStaysInsideHugeSizes(t *testing.T) {
	for _, size := range []uint64{1 << 32, 1<<40 + 12345, 1<<62 + 1} {
		for n := range uint64(50) {
			if p := waitingroom.Permute(testKey(n), size, size-1-n); p >= size {
				t.Fatalf("size %d: %d is outside", size, p)
			}
		}
	}
}

// The vectors are what phones and `usher fairness verify` must compute, too: they
// may never change. They were computed by a second implementation.
func TestPermuteVectors(t *testing.T) {
	vectors := []struct {
		key, size uint64
		want      []uint64
	}{
		{1, 1, []uint64{0}},
		{1, 2, []uint64{1, 0}},
		{1, 7, []uint64{3, 1, 0, 5, 4, 6, 2}},
		{2, 7, []uint64{4, 5, 6, 3, 0, 1, 2}},
		{3, 667, []uint64{307, 259, 114, 321, 454}},
		{4, 2_000_000, []uint64{531287, 1139668, 1769785, 514857, 1434712}},
	}
	for _, v := range vectors {
		for n, want := range v.want {
			if got := waitingroom.Permute(testKey(v.key), v.size, uint64(n)); got != want {
				t.Errorf("key %d, size %d: %d maps to %d, want %d", v.key, v.size, n, got, want)
			}
		}
	}
}

// TestPermuteHasNoFavourite checks that over many keys every index of a small
// bucket gets every place about equally often.
func TestPermuteHasNoFavourite(t *testing.T) {
	const keys = 5_000
	for size := uint64(2); size <= 9; size++ {
		counts := make([][]float64, size)
		for n := range counts {
			counts[n] = make([]float64, size)
		}
		for k := range uint64(keys) {
			key := testKey(k)
			for n := range size {
				counts[n][waitingroom.Permute(key, size, n)]++
			}
		}
		want := float64(keys) / float64(size)
		for n := range counts {
			chi := 0.0
			for _, c := range counts[n] {
				chi += (c - want) * (c - want) / want
			}
			// At most 8 degrees of freedom: 40 is far beyond one in 100,000.
			if chi > 40 {
				t.Errorf("size %d: index %d has favourites: chi-square %.1f", size, n, chi)
			}
		}
	}
}

func TestPermuteRefusesForeignIndex(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("an index outside of the bucket was permuted")
		}
	}()
	waitingroom.Permute(testKey(1), 5, 5)
}

func TestBucketKeysDiffer(t *testing.T) {
	seed := []byte("seed")
	seen := map[[32]byte]bool{}
	for _, k := range [][32]byte{
		waitingroom.BucketKey(seed, 1, 1, 1), waitingroom.BucketKey(seed, 2, 1, 1), waitingroom.BucketKey(seed, 1, 2, 1),
		waitingroom.BucketKey(seed, 1, 1, 2), waitingroom.BucketKey([]byte("other"), 1, 1, 1),
	} {
		if seen[k] {
			t.Fatal("two buckets share a key")
		}
		seen[k] = true
	}
}

func BenchmarkPermute(b *testing.B) {
	key := testKey(1)
	for i := range b.N {
		waitingroom.Permute(key, 667, uint64(i)%667)
	}
}
