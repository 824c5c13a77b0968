package main

import (
	"context"
	"fmt"

	"usher"
	"usher/internal/account"
	"usher/internal/catalog"
	"usher/internal/redemption"
)

const (
	// demoTenant owns the sample events, demoOperator acts for the house.
	demoTenant   = "Sample Promoter"
	demoOperator = "Demo operator"
)

// prepare makes what a demo begins with: an operator's key, the sample events
// and a gate for each. Every step finds what an earlier start made, so that a start that
// was killed in between is simply repeated.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.prepareOperator(ctx); err != nil {
		return err
	}
	tenant, err := findTenant(ctx, d.app.accounts)
	if err != nil {
		return err
	}
	events, err := d.app.catalog.Samples(ctx, tenant)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := d.prepareEvent(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) prepareEvent(ctx context.Context, e catalog.Event) error {
	shown := demoEvent{EventID: e.ID, Name: e.Name, Standing: e.Standing(), Queue: e.Rules.AdmissionRequired}
	if e.Chart != "" {
		chart, err := d.app.charts.ByHash(ctx, e.Chart)
		if err != nil {
			return err
		}
		shown.Seats = chart.Len()
	}
	if err := d.prepareGate(ctx, e.ID); err != nil {
		return err
	}
	shown.DeviceCredential = d.state.Gates[e.ID]
	d.events = append(d.events, shown)
	return nil
}

// prepareOperator keeps the key of the last start if the database knows it.
func (d *demo) prepareOperator(ctx context.Context) error {
	if d.state.AdminToken != "" {
		_, err := d.app.accounts.Operator(ctx, d.state.AdminToken)
		if usher.CodeOf(err) != usher.CodeUnauthenticated {
			return err
		}
	}
	operator, err := d.app.accounts.CreateOperator(ctx, demoOperator, usher.TenantID{})
	if err != nil {
		return fmt.Errorf("make operator: %w", err)
	}
	key, _, err := d.app.accounts.CreateKey(ctx, operator.ID, "usher demo")
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	// A crash before this line leaves a key that nobody has: harmless.
	d.state.AdminToken = key
	return d.state.save()
}

func findTenant(ctx context.Context, accounts *account.Accounts) (usher.TenantID, error) {
	t, err := accounts.CreateTenant(ctx, demoTenant)
	if usher.CodeOf(err) != usher.CodeStateConflict {
		return t.ID, err
	}
	tenants, err := accounts.Tenants(ctx)
	if err != nil {
		return usher.TenantID{}, err
	}
	for _, t := range tenants {
		if t.Name == demoTenant {
			return t.ID, nil
		}
	}
	return usher.TenantID{}, fmt.Errorf("tenant %q is neither there nor free", demoTenant)
}

// prepareGate registers a gate of an event, where people settle at once.
func (d *demo) prepareGate(ctx context.Context, event usher.EventID) error {
	if known := d.state.Gates[event]; known != "" {
		_, err := d.app.redeemer.Device(ctx, known)
		if usher.CodeOf(err) != usher.CodeUnauthenticated {
			return err
		}
	}
	credential, _, err := d.app.redeemer.RegisterDevice(ctx, event, "Demo gate", redemption.SettleNow, "")
	if err != nil {
		return fmt.Errorf("register gate: %w", err)
	}
	if d.state.Gates == nil {
		d.state.Gates = map[usher.EventID]string{}
	}
	d.state.Gates[event] = credential
	return d.state.save()
}
