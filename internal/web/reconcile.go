package web

import (
	"context"
	"net/http"
	"time"

	"usher"
	"usher/internal/pg"
)

const (
	// reconcileTimeout ends a reconciliation before its answer would be cut off.
	reconcileTimeout = 45 * time.Second
	// reconcileOpenMax is how many open operations an answer lists per shard.
	reconcileOpenMax = 100
)

// reconcileRequest asks for a reconciliation of payments.
type reconcileRequest struct {
	Because
	OlderThanSeconds int  `json:"olderThanSeconds,omitempty" minimum:"0" maximum:"31536000" doc:"Only operations at least this old; all by default"`
	RedriveParked    bool `json:"redriveParked,omitempty" doc:"Make parked operations and provider messages due again first, at most 1000 of each per shard"`
}

type reconcileInput struct {
	Body reconcileRequest
}

// openPaymentView is a payment operation that is still open.
type openPaymentView struct {
	OperationID usher.OperationID     `json:"operationId"`
	OrderID     usher.OrderID         `json:"orderId"`
	Kind        usher.OperationKind   `json:"kind"`
	Status      usher.OperationStatus `json:"status"`
	AgeSeconds  int64                 `json:"ageSeconds"`
	Problem     string                `json:"problem,omitempty" doc:"Why, as far as it is known"`
}

// shardReportView is what was found in one home shard.
type shardReportView struct {
	Shard     pg.ShardNumber    `json:"shard"`
	Redriven  int               `json:"redriven" doc:"Parked rows that were made due again"`
	Asked     int               `json:"asked" doc:"Open operations the provider was asked about"`
	Settled   int               `json:"settled" doc:"Operations that ended by it"`
	StillOpen int               `json:"stillOpen"`
	Open      []openPaymentView `json:"open" doc:"What is still open, oldest first, at most 100"`
	Problem   usher.Code        `json:"problem,omitempty" doc:"Why it ended early: ask again"`
}

type reconcileOutput struct {
	Body struct {
		Shards []shardReportView `json:"shards"`
	}
}

func (s *Server) addReconcile() {
	add(s, route{
		id: "reconcilePayments", method: http.MethodPost, path: "/v1/admin/payments/reconcile", tag: "Operating", who: staff, status: http.StatusOK,
		summary: "Ask the payment provider about everything that is open, now",
		doc:     "usher does so by itself every few minutes and by each operation's own schedule; this is for after an outage. Repeating it is harmless. For the house's own staff only.",
	}, s.reconcilePayments)
}

func (s *Server) reconcilePayments(ctx context.Context, in *reconcileInput) (*reconcileOutput, error) {
	if !operatorOf(ctx).Tenant.IsZero() {
		return nil, usher.Errorf(usher.CodeForbidden, "reconciling payments is for the house's own staff")
	}
	b := in.Body
	by, err := b.by(ctx)
	if err != nil {
		return nil, err
	}
	detail := map[string]any{"olderThanSeconds": b.OlderThanSeconds, "redriveParked": b.RedriveParked}
	if err := s.logAction(ctx, "payments.reconcile", "payments", by.Reason, detail); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	out := &reconcileOutput{}
	out.Body.Shards = []shardReportView{}
	for _, r := range s.deps.Checkout.ReconcileNow(ctx, time.Duration(b.OlderThanSeconds)*time.Second, b.RedriveParked) {
		v := shardReportView{
			Shard: r.Shard, Redriven: r.Redriven, Asked: r.Asked, Settled: r.Settled, StillOpen: len(r.Open), Problem: r.Problem,
			Open: []openPaymentView{},
		}
		for _, d := range r.Open[:min(len(r.Open), reconcileOpenMax)] {
			v.Open = append(v.Open, openPaymentView{
				OperationID: d.Operation, OrderID: d.Order, Kind: d.Kind, Status: d.After, AgeSeconds: int64(d.Age.Seconds()), Problem: d.Problem,
			})
		}
		out.Body.Shards = append(out.Body.Shards, v)
	}
	return out, nil
}
