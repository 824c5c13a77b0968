package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
)

const (
	// stockEvery is how old the word for stock in a queue's document may be.
	stockEvery   = 2 * time.Second
	stockTimeout = 2 * time.Second
)

// runStock puts the word for what is left into the documents of the queues, from
// the seat map's picture and the counts of places without seats, until ctx ends.
func (a *app) runStock(ctx context.Context) {
	t := time.NewTicker(stockEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		events, err := a.catalog.List(ctx, false)
		if err != nil {
			continue
		}
		for _, e := range events {
			if e.Status == catalog.StatusPublished && e.Rules.AdmissionRequired {
				a.showStock(ctx, e)
			}
		}
	}
}

// showStock keeps the last word when seats or counts are not to be had.
func (a *app) showStock(ctx context.Context, e catalog.Event) {
	ctx, cancel := context.WithTimeout(ctx, stockTimeout)
	defer cancel()
	var left places
	if e.Chart != "" {
		snapshot, err := a.hub.Outsider(ctx, e.ID)
		if err != nil {
			return
		}
		if left, err = countSeats(snapshot.Body); err != nil {
			a.log.ErrorContext(ctx, "seat picture cannot be counted", "event", e.ID, "error", err)
			return
		}
	}
	if e.Standing() > 0 {
		buckets, err := a.ledger.Quota(ctx, e.ID)
		if err != nil {
			return
		}
		left.add(buckets)
	}
	a.rooms.SetStock(e.ID, left.word())
}

// places are how many places of an event are in which state.
type places struct{ free, held, total int }

// countSeats counts a snapshot (docs/seat-map.md): two bits a seat, the first seat
// in the highest bits; 0 is free, 1 is held.
func countSeats(snapshot []byte) (places, error) {
	var s struct {
		Count  int    `json:"count"`
		States string `json:"states"`
	}
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return places{}, fmt.Errorf("read snapshot: %w", err)
	}
	packed, err := base64.StdEncoding.DecodeString(s.States)
	if err != nil || len(packed) != (s.Count+3)/4 {
		return places{}, fmt.Errorf("snapshot has %d bytes for %d seats", len(packed), s.Count)
	}
	var counts [4]int
	for i := range s.Count {
		counts[packed[i>>2]>>(6-2*(i&3))&3]++
	}
	return places{free: counts[0], held: counts[1], total: s.Count}, nil
}

func (p *places) add(buckets []ledger.BucketState) {
	for _, b := range buckets {
		p.free += b.Available
		p.held += b.Held
		p.total += b.Capacity()
	}
}

func (p places) word() usher.Stock { return usher.StockOf(p.free, p.held, p.total) }
