package usher

// Stock says in a word how much is left; it never gives a figure away.
type Stock string

// The words for stock. In baskets: nothing is free now, some may come back.
const (
	StockMany      Stock = "many"
	StockFew       Stock = "few"
	StockInBaskets Stock = "inBaskets"
	StockSoldOut   Stock = "soldOut"
)

// Few are left down to a tenth of the places, and always where two full orders
// would take them all.
const (
	fewShare = 0.1
	fewLeast = 2 * PlacesMax
)

// StockOf returns the word for so many free and held places of a total.
func StockOf(free, held, total int) Stock {
	switch {
	case float64(free) > max(fewShare*float64(total), fewLeast):
		return StockMany
	case free > 0:
		return StockFew
	case held > 0:
		return StockInBaskets
	}
	return StockSoldOut
}
