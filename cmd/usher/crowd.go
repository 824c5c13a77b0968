package main

import (
	"context"
	"maps"
	"math"

	"usher"
	"usher/internal/sim/crowd"
)

const (
	// crowdMax and crowdSpeedMax are what one machine can show.
	crowdMax      = 2000
	crowdSpeedMax = 100
	// crowdLeaves is the share of every house that a crowd leaves for the person who
	// watches.
	crowdLeaves = 1.0 / 3
)

func checkCrowd(people int, speed float64) error {
	if people < 0 || people > crowdMax {
		return usagef("a crowd has 0 to %d people (--crowd)", crowdMax)
	}
	// Written so that NaN fails, too.
	if !(speed > 0 && speed <= crowdSpeedMax) {
		return usagef("a crowd moves at up to %d times human pace (--crowd-speed)", crowdSpeedMax)
	}
	return nil
}

// startCrowd sends people into the demo, which is up by now. It ends with the
// demo's context.
func (d *demo) startCrowd() {
	if d.cmd.Crowd == 0 {
		return
	}
	d.crowd.Go(func() {
		crowd.Keep(d.ctx, crowd.KeepConfig{
			URL: d.url, AdminToken: d.state.AdminToken, People: d.cmd.Crowd, Speed: d.cmd.CrowdSpeed, Leave: crowdLeaves, Log: d.log,
		})
	})
}

// pace sets how fast the waiting rooms let people in. The usual rates are for a
// stadium: a crowd of some hundred would never stand in line. Without a crowd they
// are put back, also those of a demo that was killed.
func (d *demo) pace(ctx context.Context) error {
	if d.cmd.Crowd == 0 && len(d.state.Rates) == 0 {
		return nil
	}
	usual := maps.Clone(d.state.Rates)
	if usual == nil {
		usual = map[usher.EventID]float64{}
	}
	for _, e := range d.events {
		if _, known := usual[e.EventID]; known || !e.Queue {
			continue
		}
		now, err := d.app.rooms.Status(ctx, e.EventID)
		if err != nil {
			return err
		}
		usual[e.EventID] = now.RatePerSecond
	}
	// Known before the first room is slow: a kill in between loses no rate.
	d.state.Rates = usual
	if err := d.state.save(); err != nil {
		return err
	}
	for event, usually := range usual {
		rate := usually
		if d.cmd.Crowd > 0 {
			rate = math.Min(rate, crowd.RoomRate(d.cmd.Crowd, d.cmd.CrowdSpeed))
		}
		if err := d.app.rooms.SetRate(ctx, event, rate); err != nil {
			return err
		}
	}
	if d.cmd.Crowd > 0 {
		return nil
	}
	d.state.Rates = nil
	return d.state.save()
}
