package waitingroom

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// NowDocument is the one small document that everybody who waits for an event
// reads. It is the same for all, so caches may keep it for a second.
type NowDocument struct {
	// Body is JSON, encoded once and shared: it must not be changed.
	Body []byte
	// ETag is strong and quoted.
	ETag string
	AsOf time.Time
}

// nowBody is the JSON of a now document.
type nowBody struct {
	Event  usher.EventID    `json:"eventId"`
	Round  int              `json:"round"`
	Phase  usher.QueuePhase `json:"phase"`
	Policy Policy           `json:"policy"`
	// Serving: numbers below it are called. Numbered is how many numbers were given
	// so far; a place in a bucket up to ClosedThrough has its number.
	Serving       int64 `json:"serving"`
	Numbered      int64 `json:"numbered"`
	ClosedThrough int64 `json:"closedThrough"`
	// Rate is people a second; Admitting is false while nobody is called, whatever
	// the rate: paused, closed, or the shop is unreachable.
	Rate      float64 `json:"rate"`
	Admitting bool    `json:"admitting"`
	// Waiting is how many wait to be called, without those who left or lapsed.
	Waiting   int64       `json:"waiting"`
	Stock     usher.Stock `json:"stock"`
	Message   string      `json:"message"`
	OpensAt   *time.Time  `json:"opensAt"`
	RulesHash string      `json:"rulesHash"`
	Pace      []pace      `json:"pace"`
	AsOf      time.Time   `json:"asOf"`
}

// pace says how often to read the document: everySeconds while at most ahead
// people are before one; the first row that fits counts, and null fits all.
type pace struct {
	Ahead        *int64 `json:"ahead"`
	EverySeconds int    `json:"everySeconds"`
}

// paceSteps are the steps of every pace table by the time to one's turn.
var paceSteps = []struct {
	within time.Duration
	every  int
}{{15 * time.Second, 1}, {time.Minute, 3}, {10 * time.Minute, 10}}

// paceSlowest is for those furthest away, and for everybody while nobody is called.
const paceSlowest = 30

// paceAheadMin keeps the front of a slow queue attentive.
const paceAheadMin = 10

func paceTable(rate float64) []pace {
	var out []pace
	for i, s := range paceSteps {
		ahead := max(int64(rate*s.within.Seconds()), paceAheadMin<<(2*i))
		out = append(out, pace{&ahead, s.every})
	}
	return append(out, pace{nil, paceSlowest})
}

// view is what this process knows of a room; it is never changed, only replaced.
type view struct {
	round int
	phase usher.QueuePhase
	idle  time.Duration
	doc   NowDocument
}

func (r *Rooms) view(event usher.EventID) *view { return (*r.views.Load())[event] }

// idleWindow is the room's idle window, or the default for a room that this
// process has not heard of yet.
func (r *Rooms) idleWindow(event usher.EventID) time.Duration {
	if v := r.view(event); v != nil {
		return v.idle
	}
	return 15 * time.Minute
}

// Now returns the room's document, at most about a second old while the room's
// database answers; it costs no SQL. ok is false for an event without a room.
func (r *Rooms) Now(event usher.EventID) (doc NowDocument, ok bool) {
	v := r.view(event)
	if v == nil {
		return NowDocument{}, false
	}
	return v.doc, true
}

// SetStock sets the word for the event's stock in this process's documents; it
// shows with the next refresh. Unknown words are ignored.
func (r *Rooms) SetStock(event usher.EventID, s usher.Stock) {
	if !slices.Contains([]usher.Stock{usher.StockMany, usher.StockFew, usher.StockInBaskets, usher.StockSoldOut}, s) {
		return
	}
	r.stockMu.Lock()
	defer r.stockMu.Unlock()
	r.stocks[event] = s
}

func (r *Rooms) stock(event usher.EventID) usher.Stock {
	r.stockMu.Lock()
	defer r.stockMu.Unlock()
	if s, ok := r.stocks[event]; ok {
		return s
	}
	return usher.StockMany
}

func (r *Rooms) runRefresh(ctx context.Context) {
	failing := false
	every(ctx, refreshEvery, func(own context.Context) {
		err := r.refresh(own, false)
		if ctx.Err() == nil && failing != (err != nil) {
			failing = err != nil
			r.log.WarnContext(ctx, "now documents", "stale", failing, "error", err)
		}
	})
}

// Rooms that closed over an hour ago do not change: they are read once, at start.
const sqlRefresh = `
SELECT s.event_id, s.round, s.phase, s.policy, s.serving, s.next_number,
    s.bucket - CASE WHEN s.bucket_size > 0 THEN 1 ELSE 0 END, s.rate_per_second,
    s.phase = 'open' AND s.ticked_at > c.now - interval '5 seconds',
    s.next_number + s.bucket_size - s.serving - s.left_waiting,
    s.message, s.opens_at, s.idle_seconds, r.rules_hash, c.now
FROM (SELECT clock_timestamp() AS now) c
CROSS JOIN queue_state s
JOIN queue_round r ON r.event_id = s.event_id AND r.round = s.round
WHERE $1 OR s.phase <> 'closed' OR s.phase_at > c.now - interval '1 hour'`

// refresh reads all rooms in one query and replaces what this process knows.
func (r *Rooms) refresh(ctx context.Context, everything bool) error {
	r.refreshMu.Lock()
	defer r.refreshMu.Unlock()
	rows, err := r.homes.Room.Query(ctx, sqlRefresh, everything)
	if err != nil {
		return fmt.Errorf("refresh waiting rooms: %w", pg.Unavailable(err))
	}
	views := maps.Clone(*r.views.Load())
	var (
		b    nowBody
		idle int64
		hash []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&b.Event, &b.Round, &b.Phase, &b.Policy, &b.Serving, &b.Numbered,
		&b.ClosedThrough, &b.Rate, &b.Admitting, &b.Waiting, &b.Message, &b.OpensAt, &idle, &hash, &b.AsOf}, func() error {
		b.RulesHash, b.Stock, b.Pace = hex.EncodeToString(hash), r.stock(b.Event), paceTable(b.Rate)
		doc, err := b.document()
		if err != nil {
			return err
		}
		views[b.Event] = &view{b.Round, b.Phase, time.Duration(idle) * time.Second, doc}
		r.metrics.shown(&b)
		return nil
	})
	if err != nil {
		return fmt.Errorf("refresh waiting rooms: %w", pg.Unavailable(err))
	}
	r.views.Store(&views)
	return nil
}

func (b *nowBody) document() (NowDocument, error) {
	b.AsOf = b.AsOf.UTC().Truncate(time.Millisecond)
	body, err := json.Marshal(b)
	h := fnv.New64a()
	h.Write(body)
	return NowDocument{Body: body, ETag: fmt.Sprintf(`"%016x"`, h.Sum64()), AsOf: b.AsOf}, err
}
