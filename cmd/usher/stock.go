package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/waitingroom"
)

const (
	// stockEvery is how old the word for stock in a queue's document may be.
	stockEvery   = 2 * time.Second
	stockTimeout = 2 * time.Second
	// fewShare is the share of free seats below which few are left.
	fewShare = 0.1
)

// runStock puts the word for what is left into the documents of the queues, from
// the seat map's picture, until ctx ends.
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
				a.showStock(ctx, e.ID)
			}
		}
	}
}

// showStock keeps the last word when the picture is not to be had.
func (a *app) showStock(ctx context.Context, event usher.EventID) {
	ctx, cancel := context.WithTimeout(ctx, stockTimeout)
	defer cancel()
	snapshot, err := a.hub.Outsider(ctx, event)
	if err != nil {
		return
	}
	stock, err := stockOf(snapshot.Body)
	if err != nil {
		a.log.ErrorContext(ctx, "seat picture cannot be counted", "event", event, "error", err)
		return
	}
	a.rooms.SetStock(event, stock)
}

// stockOf words a snapshot (docs/seat-map.md): two bits a seat, the first seat in
// the highest bits; 0 is free, 1 is held.
func stockOf(snapshot []byte) (waitingroom.Stock, error) {
	var s struct {
		Count  int    `json:"count"`
		States string `json:"states"`
	}
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return "", fmt.Errorf("read snapshot: %w", err)
	}
	packed, err := base64.StdEncoding.DecodeString(s.States)
	if err != nil || len(packed) != (s.Count+3)/4 {
		return "", fmt.Errorf("snapshot has %d bytes for %d seats", len(packed), s.Count)
	}
	var counts [4]int
	for i := range s.Count {
		counts[packed[i>>2]>>(6-2*(i&3))&3]++
	}
	switch {
	case float64(counts[0]) > fewShare*float64(s.Count):
		return waitingroom.StockMany, nil
	case counts[0] > 0:
		return waitingroom.StockFew, nil
	case counts[1] > 0:
		return waitingroom.StockInBaskets, nil
	}
	return waitingroom.StockSoldOut, nil
}
