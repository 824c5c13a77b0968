// Package catalog is the directory of events: what is on, where and when, with
// which chart, standing tiers and prices, and the steps that turn a draft into a sale.
//
// Publication copies what a running sale needs to the event's home shard and
// its waiting room, in steps that are each durable and idempotent: whoever
// crashed in between publishes again. From the first step on the draft is
// frozen, so that a repeated step finds what the first one wrote.
//
// Invariants it keeps:
//
//   - an event whose status is published has inventory, prices, its chart (if it has
//     seats), waiting room (if its rules require admission) and ticket pool in its
//     home;
//   - nobody is admitted to a shop that does not sell: the ledger opens before the
//     room, and the room closes before the ledger;
//   - what browsing reads is answered from memory when the directory is away.
//
// The package writes event, event_tier and event_home and no others. It decides
// nothing about a seat.
package catalog
