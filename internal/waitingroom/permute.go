package waitingroom

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"usher"
)

// permuteRounds is how often the halves are mixed: as often as in the standard
// format-preserving ciphers, so that even a bucket of three has no favourite.
const permuteRounds = 10

// Permute maps n, one of 0 to size-1, to its place among 0 to size-1: a
// bijection that the 32-byte key selects. It is a Feistel network over the
// fewest bits that hold size, whose rounds are SHA-256, walked along its cycle
// until it lands inside (fewer than two steps on average). Anyone who knows key and size
// can compute it; without the key nobody can tell the order. It panics when n
// is not below size.
func Permute(key [32]byte, size, n uint64) uint64 {
	if n >= size {
		panic("waitingroom: index outside of its bucket")
	}
	if size == 1 {
		return 0
	}
	for {
		if n = feistel(key, size, n); n < size {
			return n
		}
	}
}

// feistel permutes the numbers of as many bits as size-1 has. The halves may
// differ by a bit: they take turns in being changed and are never swapped.
func feistel(key [32]byte, size, n uint64) uint64 {
	width := bits.Len64(size - 1)
	low := width / 2
	highMask, lowMask := uint64(1)<<(width-low)-1, uint64(1)<<low-1
	h, l := n>>low, n&lowMask
	for round := range byte(permuteRounds) {
		if round%2 == 0 {
			l ^= mix(key, round, size, h) & lowMask
		} else {
			h ^= mix(key, round, size, l) & highMask
		}
	}
	return h<<low | l
}

// mix is SHA-256 over key, round, size and half, big endian: one block of input,
// of which the first eight bytes are used.
func mix(key [32]byte, round byte, size, half uint64) uint64 {
	var b [49]byte
	copy(b[:32], key[:])
	b[32] = round
	binary.BigEndian.PutUint64(b[33:41], size)
	binary.BigEndian.PutUint64(b[41:49], half)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:8])
}

// bucketKey derives a bucket's permutation key from the round's secret seed. It
// is fixed before anybody joins, and published only with the closed bucket.
func bucketKey(seed []byte, event usher.EventID, round int, bucket int64) [32]byte {
	m := hmac.New(sha256.New, seed)
	var b [20]byte
	copy(b[:4], "bkt1")
	binary.BigEndian.PutUint32(b[4:8], uint32(event))
	binary.BigEndian.PutUint32(b[8:12], uint32(round))
	binary.BigEndian.PutUint64(b[12:20], uint64(bucket))
	m.Write(b[:])
	return [32]byte(m.Sum(nil))
}
