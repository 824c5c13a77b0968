package stripe

import (
	"strings"

	"usher"
)

// digits are the digits after the decimal point on Stripe's wire. It is a table
// of its own: New Taiwan dollars are charged with two although locale data says
// none, and the provider changes its list by announcement, not by standard.
var digits = map[usher.Currency]int{
	"TWD": 2, "USD": 2, "EUR": 2, "GBP": 2, "HKD": 2, "CNY": 2, "AUD": 2, "CAD": 2, "CHF": 2, "SGD": 2, "MYR": 2, "THB": 2,
	"JPY": 0, "KRW": 0, "VND": 0,
	"KWD": 3, "BHD": 3, "OMR": 3, "JOD": 3, "TND": 3,
}

// amountMax is the most the wire takes: eight digits.
const amountMax = 99_999_999

// AmountToProvider returns an amount in the wire's units and the wire's name of
// its currency. It fails with usher.CodeInvalidRequest for what Stripe cannot
// charge: nothing, more than eight digits, a fraction of the wire's unit, or a
// three-decimal amount that does not end in 0.
func AmountToProvider(m usher.Money) (amount int64, currency string, err error) {
	if err := m.Validate(); err != nil {
		return 0, "", err
	}
	wire, known := digits[m.Currency]
	if !known {
		return 0, "", usher.Errorf(usher.CodeInvalidRequest, "%s cannot be charged", m.Currency)
	}
	amount, exact := rescale(m.AmountMinor, usher.Currencies[m.Currency], wire)
	switch {
	case !exact, wire == 3 && amount%10 != 0:
		return 0, "", usher.Errorf(usher.CodeInvalidRequest, "%s is finer than can be charged", m)
	case amount < 1 || amount > amountMax:
		return 0, "", usher.Errorf(usher.CodeInvalidRequest, "%s is out of the range that can be charged", m)
	}
	return amount, strings.ToLower(string(m.Currency)), nil
}

// AmountFromProvider returns what an amount on the wire is here. An unknown
// currency keeps its number and name, which equals no amount of usher's.
func AmountFromProvider(amount int64, currency string) usher.Money {
	c := usher.Currency(strings.ToUpper(currency))
	wire, known := digits[c]
	if !known {
		return usher.Money{AmountMinor: amount, Currency: c}
	}
	minor, _ := rescale(amount, wire, usher.Currencies[c])
	return usher.Money{AmountMinor: minor, Currency: c}
}

// rescale moves the decimal point; exact is false if digits were cut off.
func rescale(n int64, from, to int) (out int64, exact bool) {
	for ; from < to; from++ {
		n *= 10
	}
	exact = true
	for ; from > to; from-- {
		exact = exact && n%10 == 0
		n /= 10
	}
	return n, exact
}
