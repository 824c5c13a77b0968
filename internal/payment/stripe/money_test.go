package stripe_test

import (
	"testing"

	"usher"
	"usher/internal/payment/stripe"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		money    usher.Money
		amount   int64
		currency string
	}{
		{usher.Money{AmountMinor: 100000, Currency: "TWD"}, 100000, "twd"}, // NT$1,000 is x100 here
		{usher.Money{AmountMinor: 5000, Currency: "JPY"}, 5000, "jpy"},
		{usher.Money{AmountMinor: 50000, Currency: "KRW"}, 50000, "krw"},
		{usher.Money{AmountMinor: 1250, Currency: "KWD"}, 1250, "kwd"},
		{usher.Money{AmountMinor: 1999, Currency: "USD"}, 1999, "usd"},
		{usher.Money{AmountMinor: 99_999_999, Currency: "EUR"}, 99_999_999, "eur"},
	}
	for _, tt := range tests {
		amount, currency, err := stripe.AmountToProvider(tt.money)
		if err != nil || amount != tt.amount || currency != tt.currency {
			t.Errorf("%v -> %d %q, %v", tt.money, amount, currency, err)
		}
		if back := stripe.AmountFromProvider(amount, currency); back != tt.money {
			t.Errorf("%v came back as %v", tt.money, back)
		}
	}
}

func TestAmountsThatCannotBeCharged(t *testing.T) {
	t.Parallel()
	for _, m := range []usher.Money{
		{AmountMinor: 0, Currency: "USD"},
		{AmountMinor: -100, Currency: "USD"},
		{AmountMinor: 100_000_000, Currency: "USD"},
		{AmountMinor: 1251, Currency: "KWD"},
		{AmountMinor: 100050, Currency: "TWD"},
		{AmountMinor: 100, Currency: "ZZZ"},
		{AmountMinor: 100, Currency: ""},
	} {
		if _, _, err := stripe.AmountToProvider(m); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// Every currency usher sells in has a multiplier of this provider's own.
func TestEveryCurrencyHasAMultiplier(t *testing.T) {
	t.Parallel()
	for c := range usher.Currencies {
		m := usher.Money{AmountMinor: 10_000, Currency: c}
		amount, currency, err := stripe.AmountToProvider(m)
		if err != nil || stripe.AmountFromProvider(amount, currency) != m {
			t.Errorf("%s: %d %q %v", c, amount, currency, err)
		}
	}
}

func TestForeignCurrencyEqualsNothing(t *testing.T) {
	t.Parallel()
	if got := stripe.AmountFromProvider(100, "zzz"); got != (usher.Money{AmountMinor: 100, Currency: "ZZZ"}) || got.Validate() == nil {
		t.Errorf("got %v", got)
	}
}
