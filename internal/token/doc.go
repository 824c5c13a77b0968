// Package token signs and verifies the short texts that usher hands out:
// sign-in sessions, queue tickets, admission tokens, device credentials and
// ticket codes.
//
// A token is base64url text of version, key id, payload and a truncated
// HMAC-SHA256. Every purpose has keys of its own and the purpose is part of what
// is signed, so a token of one purpose never passes for another's. Verification
// reads an immutable key set through one atomic pointer: no SQL, no lock, under
// two microseconds.
//
// Keys live in the directory's table signing_key. A rotation announces the new
// key before it signs, and keeps the old one for the purpose's overlap: longer
// than its tokens live, so a rotation ends no token early, and not a second
// longer. All times are the database's (Keyring.Now), so that two processes with
// different clocks agree on what is fresh.
//
// A payload is signed, not encrypted: it must hold nothing secret. What a token
// means (expiry, account, event) is the caller's business.
package token
