package crowd

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
)

// venue is what people see of an event: its seats in rows, and the picture of
// what is free. The picture is shared and a little old, as everybody's is.
type venue struct {
	event    string
	queued   bool
	sections [][]row
	seats    int

	mu     sync.Mutex
	states []byte
}

// row is the ordinals and ids of adjacent seats.
type row struct {
	first int
	ids   []string
}

type chartBody struct {
	Sections []struct {
		Rows []struct {
			Seats []struct {
				ID string `json:"id"`
			} `json:"seats"`
		} `json:"rows"`
	} `json:"sections"`
}

type snapshotBody struct {
	Chart  string `json:"chart"`
	Count  int    `json:"count"`
	States string `json:"states"`
}

// readVenue reads chart and first picture of an event.
func readVenue(ctx context.Context, c *client, event string) (*venue, error) {
	v := &venue{event: event}
	var snap snapshotBody
	if _, err := c.call(ctx, http.MethodGet, "/v1/events/"+event+"/seats", "", nil, nil, &snap); err != nil {
		return nil, fmt.Errorf("read seats of %s: %w", event, err)
	}
	var chart chartBody
	if _, err := c.call(ctx, http.MethodGet, "/v1/charts/"+snap.Chart, "", nil, nil, &chart); err != nil {
		return nil, fmt.Errorf("read chart of %s: %w", event, err)
	}
	for _, s := range chart.Sections {
		var rows []row
		for _, r := range s.Rows {
			x := row{first: v.seats}
			for _, seat := range r.Seats {
				x.ids = append(x.ids, seat.ID)
			}
			v.seats += len(x.ids)
			rows = append(rows, x)
		}
		v.sections = append(v.sections, rows)
	}
	if v.seats != snap.Count {
		return nil, fmt.Errorf("chart of %s has %d seats, its picture %d", event, v.seats, snap.Count)
	}
	return v, v.take(snap)
}

// look takes a fresh picture, as a person in the shop does.
func (v *venue) look(ctx context.Context, c *client, token, admission string) error {
	var header map[string]string
	if admission != "" {
		header = map[string]string{"Usher-Admission": admission}
	}
	var snap snapshotBody
	if _, err := c.call(ctx, http.MethodGet, "/v1/events/"+v.event+"/seats", token, header, nil, &snap); err != nil {
		return err
	}
	return v.take(snap)
}

func (v *venue) take(snap snapshotBody) error {
	states, err := base64.StdEncoding.DecodeString(snap.States)
	if err != nil || len(states) != (v.seats+3)/4 {
		return fmt.Errorf("picture of %s cannot be read: %d bytes, %w", v.event, len(states), err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.states = states
	return nil
}

// free reports whether the picture shows the seat as available (two bits a seat,
// first seat highest, 0 is available).
func (v *venue) free(i int) bool { return v.states[i>>2]>>(6-2*(i&3))&3 == 0 }

// hotRows is how many rows of the first section everybody wants.
const hotRows = 6

// pick chooses n adjacent seats that look free. Most people want the same few
// rows: that is where they quarrel. It returns nil when nothing looks free.
func (v *venue) pick(rng *rand.Rand, n int, hot bool) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for range 200 {
		rows := v.sections[rng.IntN(len(v.sections))]
		if hot {
			rows = v.sections[0][:min(hotRows, len(v.sections[0]))]
		}
		if len(rows) == 0 {
			continue
		}
		r := rows[rng.IntN(len(rows))]
		if len(r.ids) < n {
			continue
		}
		at := rng.IntN(len(r.ids) - n + 1)
		ok := true
		for k := range n {
			ok = ok && v.free(r.first+at+k)
		}
		if ok {
			return append([]string(nil), r.ids[at:at+n]...)
		}
	}
	return nil
}
