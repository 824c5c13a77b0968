package usher

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// EventID is the number the directory gave an event: 1 to EventIDMax. It fits
// 24 bits because every id issued by a shard carries it (see ShardID). Its text
// is "evt_" and the decimal number.
type EventID int32

// EventIDMax is the largest event number that fits the 24 bits reserved for it.
const EventIDMax = 1<<24 - 1

// String returns the text form, for example "evt_12".
func (id EventID) String() string { return "evt_" + strconv.Itoa(int(id)) }

// MarshalText implements encoding.TextMarshaler.
func (id EventID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the text form; anything else fails with CodeInvalidID.
func (id *EventID) UnmarshalText(b []byte) error {
	v, err := ParseEventID(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// ParseEventID parses "evt_12". There is one spelling per number: no sign, no
// leading zero. It fails with CodeInvalidID.
func ParseEventID(s string) (EventID, error) {
	digits, ok := strings.CutPrefix(s, "evt_")
	n, err := strconv.ParseUint(digits, 10, 24)
	if !ok || err != nil || n == 0 || digits[0] == '0' || digits[0] == '+' {
		return 0, Errorf(CodeInvalidID, "not an event id like evt_12")
	}
	return EventID(n), nil
}

// Kind names what an id identifies; its prefix keeps ids of different nouns
// from being taken for each other.
type Kind interface{ prefix() string }

// The kinds of ids. They have no values of interest: they only parameterise
// ShardID and DirectoryID.
type (
	holdKind       struct{}
	orderKind      struct{}
	operationKind  struct{}
	ticketKind     struct{}
	redemptionKind struct{}
	poolKind       struct{}
	sessionKind    struct{}
	mailKind       struct{}
	accountKind    struct{}
	tenantKind     struct{}
	deviceKind     struct{}
	operatorKind   struct{}
	commandKind    struct{}
)

func (holdKind) prefix() string       { return "hld_" }
func (orderKind) prefix() string      { return "ord_" }
func (operationKind) prefix() string  { return "pop_" }
func (ticketKind) prefix() string     { return "tkt_" }
func (redemptionKind) prefix() string { return "rdm_" }
func (poolKind) prefix() string       { return "pol_" }
func (sessionKind) prefix() string    { return "ses_" }
func (mailKind) prefix() string       { return "mai_" }
func (accountKind) prefix() string    { return "acc_" }
func (tenantKind) prefix() string     { return "tnt_" }
func (deviceKind) prefix() string     { return "dev_" }
func (operatorKind) prefix() string   { return "opr_" }
func (commandKind) prefix() string    { return "cmd_" }

// Ids issued by an event's home shard.
type (
	HoldID       = ShardID[holdKind]
	OrderID      = ShardID[orderKind]
	OperationID  = ShardID[operationKind]
	TicketID     = ShardID[ticketKind]
	RedemptionID = ShardID[redemptionKind]
	PoolID       = ShardID[poolKind]
	SessionID    = ShardID[sessionKind]
	MailID       = ShardID[mailKind]
	DeviceID     = ShardID[deviceKind]
	CommandID    = ShardID[commandKind]
)

// Ids issued by the directory.
type (
	AccountID  = DirectoryID[accountKind]
	TenantID   = DirectoryID[tenantKind]
	OperatorID = DirectoryID[operatorKind]
)

// ShardID is an id issued by a home shard: a UUID (RFC 9562, version 8) of 48
// bits of Unix milliseconds, the 24-bit event number, and 50 random bits. The
// event number makes routing a matter of reading the id: nothing looks a home
// up by scanning. It tells its time, so it is never a secret.
type ShardID[K Kind] [16]byte

// NewShardID issues an id of the event. It panics on an event number out of
// range, which only a programming error can produce.
func NewShardID[K Kind](event EventID) ShardID[K] {
	if event <= 0 || event > EventIDMax {
		panic(fmt.Sprintf("usher: event number %d out of range", event))
	}
	b := timeAndRandom(8)
	b[6] = 0x80 | byte(event>>20)
	b[7] = byte(event >> 12)
	b[8] = 0x80 | byte(event>>6)&0x3f
	b[9] = byte(event<<2) | b[9]&0x03
	return b
}

// Event returns the event number that the id carries, and so its home.
func (id ShardID[K]) Event() EventID {
	return EventID(id[6]&0x0f)<<20 | EventID(id[7])<<12 | EventID(id[8]&0x3f)<<6 | EventID(id[9]>>2)
}

// IsZero reports whether the id is unset.
func (id ShardID[K]) IsZero() bool { return id == ShardID[K]{} }

// String returns the prefix and 26 characters, for example "hld_01j9...".
func (id ShardID[K]) String() string { return idText[K](id) }

// MarshalText implements encoding.TextMarshaler; the zero id is empty text.
func (id ShardID[K]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the text form; anything else fails with CodeInvalidID.
func (id *ShardID[K]) UnmarshalText(b []byte) error {
	v, err := ParseShardID[K](string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// ParseShardID parses the text form of an id of kind K. There is exactly one
// spelling per id. It fails with CodeInvalidID.
func ParseShardID[K Kind](s string) (ShardID[K], error) {
	b, err := parseIDText[K](s)
	if err != nil || b[6]>>4 != 8 || b[8]>>6 != 2 || ShardID[K](b).Event() == 0 {
		return ShardID[K]{}, errInvalidID[K]()
	}
	return b, nil
}

// DirectoryID is an id issued by the directory: a UUID of version 7.
type DirectoryID[K Kind] [16]byte

// NewDirectoryID issues an id.
func NewDirectoryID[K Kind]() DirectoryID[K] { return timeAndRandom(7) }

// IsZero reports whether the id is unset.
func (id DirectoryID[K]) IsZero() bool { return id == DirectoryID[K]{} }

// String returns the prefix and 26 characters, for example "acc_01j9...".
func (id DirectoryID[K]) String() string { return idText[K](id) }

// MarshalText implements encoding.TextMarshaler; the zero id is empty text.
func (id DirectoryID[K]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the text form; anything else fails with CodeInvalidID.
func (id *DirectoryID[K]) UnmarshalText(b []byte) error {
	v, err := ParseDirectoryID[K](string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// ParseDirectoryID parses the text form of an id of kind K. It fails with
// CodeInvalidID.
func ParseDirectoryID[K Kind](s string) (DirectoryID[K], error) {
	b, err := parseIDText[K](s)
	if err != nil || b[6]>>4 != 7 || b[8]>>6 != 2 {
		return DirectoryID[K]{}, errInvalidID[K]()
	}
	return b, nil
}

// NewAccountID issues an account id.
func NewAccountID() AccountID { return NewDirectoryID[accountKind]() }

// NewTenantID issues a tenant id.
func NewTenantID() TenantID { return NewDirectoryID[tenantKind]() }

// NewDeviceID issues the id of a gate or machine that serves the event.
func NewDeviceID(e EventID) DeviceID { return NewShardID[deviceKind](e) }

// NewOperatorID issues an operator id.
func NewOperatorID() OperatorID { return NewDirectoryID[operatorKind]() }

// NewHoldID issues a hold id of the event.
func NewHoldID(e EventID) HoldID { return NewShardID[holdKind](e) }

// NewOrderID issues an order id of the event.
func NewOrderID(e EventID) OrderID { return NewShardID[orderKind](e) }

// NewOperationID issues a payment operation id of the event.
func NewOperationID(e EventID) OperationID { return NewShardID[operationKind](e) }

// NewTicketID issues the id of a ticket or voucher code of the event.
func NewTicketID(e EventID) TicketID { return NewShardID[ticketKind](e) }

// NewRedemptionID issues a redemption id of the event.
func NewRedemptionID(e EventID) RedemptionID { return NewShardID[redemptionKind](e) }

// NewPoolID issues the id of a code pool of the event.
func NewPoolID(e EventID) PoolID { return NewShardID[poolKind](e) }

// NewSessionID issues a shopper session id of the event.
func NewSessionID(e EventID) SessionID { return NewShardID[sessionKind](e) }

// NewMailID issues a mail id of the event.
func NewMailID(e EventID) MailID { return NewShardID[mailKind](e) }

// NewCommandID issues the id of one changing command of the event's ledger.
func NewCommandID(e EventID) CommandID { return NewShardID[commandKind](e) }

// idEncoding is lower-case Crockford base32: no i, l, o, u to misread, and its
// order is the order of the bytes.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func idText[K Kind](b [16]byte) string {
	if b == ([16]byte{}) {
		return ""
	}
	var k K
	return k.prefix() + idEncoding.EncodeToString(b[:])
}

func parseIDText[K Kind](s string) (b [16]byte, err error) {
	var k K
	body, ok := strings.CutPrefix(s, k.prefix())
	if !ok || len(body) != 26 {
		return b, errInvalidID[K]()
	}
	raw, err := idEncoding.DecodeString(body)
	if err != nil || len(raw) != 16 {
		return b, errInvalidID[K]()
	}
	copy(b[:], raw)
	// The last character carries two spare bits: refuse spellings that differ only there.
	if idText[K](b) != s {
		return b, errInvalidID[K]()
	}
	return b, nil
}

func errInvalidID[K Kind]() error {
	var k K
	return Errorf(CodeInvalidID, "not an id that starts with %q", k.prefix())
}

// timeAndRandom returns a UUID of the given version: milliseconds now, then
// random bits.
func timeAndRandom(version byte) (b [16]byte) {
	// crypto/rand.Read never returns an error since Go 1.24.
	_, _ = rand.Read(b[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = version<<4 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	return b
}
