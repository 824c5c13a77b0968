package usher

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Currency is an ISO 4217 code in capitals, one of Currencies.
type Currency string

// Currencies maps a currency to the digits after its decimal point as money is
// counted here and shown on screen (ISO 4217 minor units). What a provider
// wants on its wire is the adapter's own table. New Taiwan dollars have two
// digits in ISO 4217 and are sold in whole dollars.
var Currencies = map[Currency]int{
	"TWD": 2, "USD": 2, "EUR": 2, "GBP": 2, "HKD": 2, "CNY": 2, "AUD": 2, "CAD": 2, "CHF": 2, "SGD": 2, "MYR": 2, "THB": 2,
	"JPY": 0, "KRW": 0, "VND": 0,
	"KWD": 3, "BHD": 3, "OMR": 3, "JOD": 3, "TND": 3,
}

// Money is an amount in minor units of its currency: TWD 120000 is NT$1,200.00.
type Money struct {
	AmountMinor int64    `json:"amountMinor"`
	Currency    Currency `json:"currency"`
}

// AmountMax bounds every amount, so that sums of up to a million of them cannot
// overflow.
const AmountMax = 1_000_000_000_000

// Validate checks currency and range; negative amounts are refused. It fails
// with CodeInvalidRequest.
func (m Money) Validate() error {
	if _, ok := Currencies[m.Currency]; !ok {
		return Errorf(CodeInvalidRequest, "unknown currency %q", m.Currency)
	}
	if m.AmountMinor < 0 || m.AmountMinor > AmountMax {
		return Errorf(CodeInvalidRequest, "amount out of range")
	}
	if m.Currency == "TWD" && m.AmountMinor%100 != 0 {
		return Errorf(CodeInvalidRequest, "TWD is sold in whole dollars")
	}
	return nil
}

// Add returns the sum of two amounts of one currency. It panics when the
// currencies differ or the sum overflows: callers add validated amounts.
func (m Money) Add(o Money) Money {
	if m.Currency != o.Currency {
		panic("usher: sum of " + string(m.Currency) + " and " + string(o.Currency))
	}
	if o.AmountMinor > math.MaxInt64-m.AmountMinor {
		panic("usher: amount overflow")
	}
	return Money{m.AmountMinor + o.AmountMinor, m.Currency}
}

// String returns for example "TWD 1200.00", "JPY 5000", "KWD 1.250".
func (m Money) String() string {
	digits := Currencies[m.Currency]
	n, sign := m.AmountMinor, ""
	if n < 0 {
		n, sign = -n, "-"
	}
	s := strconv.FormatInt(n, 10)
	if digits > 0 {
		if len(s) <= digits {
			s = strings.Repeat("0", digits-len(s)+1) + s
		}
		s = s[:len(s)-digits] + "." + s[len(s)-digits:]
	}
	return fmt.Sprintf("%s %s%s", m.Currency, sign, s)
}
