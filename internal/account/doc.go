// Package account knows who is asking: buyers who sign in by a code sent to
// their e-mail address, sessions that are verified without SQL, tenants,
// operators with their API keys, and the list of what operators did.
//
// Personal data lives here and nowhere else; other packages and all other homes
// hold account ids. What is kept, and for how long:
//
//	person          until erased (Erase), or as long as the account exists
//	login_code      address and network address of a request: 24 hours
//	login_failure   network address: 1 hour
//	revoked_session no personal data; until the session would have ended
//	operator_action operator ids and what they wrote; as long as the directory
//
// One mailbox is one account. Addresses are compared in a normal form: outer
// space trimmed, canonically composed, and case-folded as a whole, local part
// included. Kept apart, as mail systems do: `+` aliases, dots in the local part,
// and a domain's Unicode and xn-- spellings. Two mailboxes that differ only in
// the folded form ("ß" and "ss") share an account name, so a code always goes to
// the address on record, and proves only the address it was sent to.
//
// A wrong, expired, used or never requested code is refused with the same words,
// and an address gets a code whether or not an account exists: an account is made
// at the first successful sign-in.
package account
