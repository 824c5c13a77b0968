package seatmap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"usher"
	"usher/internal/pg"
)

// chartsCached bounds the charts kept in memory by hash: about 10 MB each at
// 50,000 seats.
const chartsCached = 16

// readTime bounds a reading of one chart, whoever still waits for it.
const readTime = 15 * time.Second

// Charts keeps charts by their address in the directory, and a copy per
// published event in its home shard. Rows never change, so what was read once is
// kept in memory. It is safe for concurrent use.
type Charts struct {
	homes *pg.Homes
	// reading are the charts being read, by hash.
	reading singleflight.Group

	mu     sync.Mutex
	byHash map[string]*Chart
	order  []string // of byHash, the one asked for longest ago first
	// hashes are the addresses of events' charts, of those that were asked for.
	hashes map[usher.EventID]string
}

// NewCharts makes the store.
func NewCharts(homes *pg.Homes) *Charts {
	return &Charts{homes: homes, byHash: map[string]*Chart{}, hashes: map[usher.EventID]string{}}
}

const sqlSaveChart = `
INSERT INTO chart (hash, name, seats, body) VALUES ($1, $2, $3, $4) ON CONFLICT (hash) DO NOTHING`

// Save stores a chart under its hash; saving it again changes nothing. It fails
// with CodeUnavailable.
func (s *Charts) Save(ctx context.Context, c *Chart) error {
	_, err := s.homes.Directory.Exec(ctx, sqlSaveChart, c.Hash(), c.Name(), c.Len(), c.Body())
	if err != nil {
		return fmt.Errorf("save chart %s: %w", c.Hash(), pg.Unavailable(err))
	}
	s.keep(c)
	return nil
}

const (
	sqlReadChart = `SELECT body FROM chart WHERE hash = $1`

	sqlReadChartCopy = `SELECT body FROM event_chart WHERE hash = $1 LIMIT 1`
)

// ByHash returns the chart with the address: from memory, from the directory,
// or, when that is away, from a shard that has a copy. It fails with
// CodeNotFound and CodeUnavailable.
func (s *Charts) ByHash(ctx context.Context, hash string) (*Chart, error) {
	if c := s.cached(hash); c != nil {
		return c, nil
	}
	return s.once(ctx, hash, func(ctx context.Context) (*Chart, error) {
		c, err := s.readChart(ctx, s.homes.Directory, sqlReadChart, hash)
		if usher.CodeOf(err) == usher.CodeUnavailable {
			for _, shard := range s.homes.Shards() {
				if found, copyErr := s.readChart(ctx, shard.Pool, sqlReadChartCopy, hash); copyErr == nil {
					return found, nil
				}
			}
		}
		return c, err
	})
}

const sqlCopyChart = `
INSERT INTO event_chart (event_id, hash, body) VALUES ($1, $2, $3) ON CONFLICT (event_id) DO NOTHING`

const sqlReadEventHash = `SELECT hash FROM event_chart WHERE event_id = $1`

// Copy puts the event's chart into its home shard; repeating it changes nothing.
// It fails with CodeStateConflict when the event has another chart already,
// CodeNotFound when it has no home, and CodeUnavailable.
func (s *Charts) Copy(ctx context.Context, event usher.EventID, c *Chart) error {
	pool, err := s.homes.Shard(ctx, event)
	if err != nil {
		return err
	}
	var hash string
	if _, err = pool.Exec(ctx, sqlCopyChart, event, c.Hash(), c.Body()); err == nil {
		err = pool.QueryRow(ctx, sqlReadEventHash, event).Scan(&hash)
	}
	if err != nil {
		return fmt.Errorf("copy chart of %s: %w", event, pg.Unavailable(err))
	}
	if hash != c.Hash() {
		return usher.Errorf(usher.CodeStateConflict, "the event is published with another chart")
	}
	return nil
}

const sqlReadEventChart = `SELECT body FROM event_chart WHERE event_id = $1`

// OfEvent returns the chart of a published event, from its home shard. It fails
// with CodeNotFound and CodeUnavailable.
func (s *Charts) OfEvent(ctx context.Context, event usher.EventID) (*Chart, error) {
	if c := s.AtHand(event); c != nil {
		return c, nil
	}
	pool, err := s.homes.Shard(ctx, event)
	if err != nil {
		return nil, err
	}
	// The address first: the chart itself is megabytes, and often here already.
	var hash string
	err = pool.QueryRow(ctx, sqlReadEventHash, event).Scan(&hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, usher.Errorf(usher.CodeNotFound, "the event is not published")
	}
	if err != nil {
		return nil, fmt.Errorf("read chart of %s: %w", event, pg.Unavailable(err))
	}
	s.mu.Lock()
	s.hashes[event] = hash
	s.mu.Unlock()
	if c := s.cached(hash); c != nil {
		return c, nil
	}
	return s.once(ctx, hash, func(ctx context.Context) (*Chart, error) {
		return s.readChart(ctx, pool, sqlReadEventChart, event)
	})
}

// AtHand returns the chart of a published event if OfEvent was asked for it and it is
// still in memory, else nil. It reads nothing and waits for nothing.
func (s *Charts) AtHand(event usher.EventID) *Chart {
	s.mu.Lock()
	hash := s.hashes[event]
	s.mu.Unlock()
	return s.cached(hash)
}

// once reads a chart for all who ask for it meanwhile: after a start a whole crowd
// does, and 50,000 seats take 0.2 s of a core to parse. It ends for a caller
// with ctx, and for the others when it is read.
func (s *Charts) once(ctx context.Context, hash string, read func(context.Context) (*Chart, error)) (*Chart, error) {
	done := s.reading.DoChan(hash, func() (any, error) {
		if c := s.cached(hash); c != nil {
			return c, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
		defer cancel()
		return read(ctx)
	})
	select {
	case r := <-done:
		return r.Val.(*Chart), r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("read chart: %w", pg.Unavailable(ctx.Err()))
	}
}

func (s *Charts) readChart(ctx context.Context, pool *pgxpool.Pool, sql string, key any) (*Chart, error) {
	var body []byte
	err := pool.QueryRow(ctx, sql, key).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, usher.Errorf(usher.CodeNotFound, "no such chart")
	}
	if err != nil {
		return nil, fmt.Errorf("read chart: %w", pg.Unavailable(err))
	}
	c, err := ParseJSON(body)
	if err != nil {
		// What is stored was written by newChart: this is damage, not a bad file.
		return nil, fmt.Errorf("stored chart cannot be read: %s", err.Error())
	}
	return s.keep(c), nil
}

func (s *Charts) cached(hash string) *Chart {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byHash[hash]
	if c != nil {
		i := slices.Index(s.order, hash)
		s.order = append(slices.Delete(s.order, i, i+1), hash)
	}
	return c
}

// keep remembers a chart and returns the one to use: all holders of one address
// share one chart.
func (s *Charts) keep(c *Chart) *Chart {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byHash[c.Hash()]; known != nil {
		return known
	}
	if len(s.order) == chartsCached {
		delete(s.byHash, s.order[0])
		s.order = s.order[1:]
	}
	s.byHash[c.Hash()] = c
	s.order = append(s.order, c.Hash())
	return c
}
