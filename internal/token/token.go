package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
	"time"

	"usher"
)

// The layout of a token before base64: version (1 byte), key id (4, big endian),
// payload, MAC (16). The MAC covers the purpose and everything before it.
const (
	version    = 1
	headerSize = 5
	macSize    = 16
	textMax    = 2048
)

// PayloadMax is the longest payload that Sign takes, in bytes.
const PayloadMax = textMax*3/4 - headerSize - macSize

// encoding has one spelling per token: spare bits at the end must be zero.
var encoding = base64.RawURLEncoding.Strict()

// errInvalid is the one answer to every kind of wrong token, so that nobody
// learns which part of a forgery was right.
var errInvalid = &usher.Error{Code: usher.CodeUnauthenticated, Message: "the token is not valid"}

// key is one signing key. It is immutable but for its pool of MAC states.
type key struct {
	id      uint32
	purpose Purpose
	from    time.Time
	retired *time.Time
	macs    sync.Pool
}

func newKey(id uint32, p Purpose, secret []byte, from time.Time, retired *time.Time) *key {
	k := &key{id: id, purpose: p, from: from, retired: retired}
	// A pooled state has the padded key hashed in already: half the work of a
	// short message.
	k.macs.New = func() any { return hmac.New(sha256.New, secret) }
	return k
}

// mac returns the truncated MAC of the signed part of a token.
func (k *key) mac(signed []byte) (out [macSize]byte) {
	h := k.macs.Get().(hash.Hash)
	defer k.macs.Put(h)
	h.Reset()
	h.Write([]byte{byte(len(k.purpose))})
	h.Write([]byte(k.purpose))
	h.Write(signed)
	copy(out[:], h.Sum(nil))
	return out
}

// keySet is an immutable picture of the live keys, with the database time at
// which it was taken.
type keySet struct {
	byID map[uint32]*key
	// signers are the keys of each purpose in the order in which they begin to sign.
	signers      map[Purpose][]*key
	databaseTime time.Time
	taken        time.Time
}

func newKeySet(keys []*key, databaseTime, taken time.Time) *keySet {
	s := &keySet{byID: map[uint32]*key{}, signers: map[Purpose][]*key{}, databaseTime: databaseTime, taken: taken}
	for _, k := range keys {
		s.byID[k.id] = k
		s.signers[k.purpose] = append(s.signers[k.purpose], k)
	}
	return s
}

func (s *keySet) now() time.Time { return s.databaseTime.Add(time.Since(s.taken)) }

// signer returns the key that signs now: the latest whose time has come. When
// none has (the database clock was set back), the earliest signs.
func (s *keySet) signer(p Purpose) *key {
	keys, now := s.signers[p], s.now()
	for i := len(keys) - 1; i > 0; i-- {
		if !keys[i].from.After(now) {
			return keys[i]
		}
	}
	return keys[0]
}

// Sign returns the token of the payload. It panics on an unknown purpose and on
// a payload longer than PayloadMax, which only a programming error can produce.
func (k *Keyring) Sign(p Purpose, payload []byte) string {
	if !p.known() || len(payload) > PayloadMax {
		panic("token: bad purpose or payload")
	}
	key := k.set.Load().signer(p)
	b := make([]byte, 0, headerSize+len(payload)+macSize)
	b = append(b, version)
	b = binary.BigEndian.AppendUint32(b, key.id)
	b = append(b, payload...)
	mac := key.mac(b)
	return encoding.EncodeToString(append(b, mac[:]...))
}

// Verify returns the payload of a token of the purpose. Whatever is wrong with
// the text (unknown or retired key, another purpose, no or a wrong signature,
// damage), it fails with CodeUnauthenticated and the same message.
func (k *Keyring) Verify(p Purpose, text string) ([]byte, error) {
	if len(text) > textMax {
		return nil, errInvalid
	}
	b, err := encoding.DecodeString(text)
	// The decoder skips line ends, which would be a second spelling.
	if err != nil || encoding.EncodedLen(len(b)) != len(text) || len(b) < headerSize+macSize || b[0] != version {
		return nil, errInvalid
	}
	set := k.set.Load()
	key := set.byID[binary.BigEndian.Uint32(b[1:headerSize])]
	if key == nil || key.purpose != p || key.retired != nil && !set.now().Before(*key.retired) {
		return nil, errInvalid
	}
	signed := b[:len(b)-macSize]
	if mac := key.mac(signed); !hmac.Equal(mac[:], b[len(signed):]) {
		return nil, errInvalid
	}
	return signed[headerSize:len(signed):len(signed)], nil
}
