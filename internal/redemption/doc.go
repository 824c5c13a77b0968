// Package redemption issues the codes of sold places and honours each at most
// once: ticket pools, codes, devices, claims, confirmations, and the sweep that
// freezes what no device finished. It alone writes the tables pool, code,
// redemption, late_confirm, scan_refusal and device.
//
// Invariants it keeps:
//
//   - a code is claimed at most once; whoever comes second is refused at once,
//     also while the winner's transaction is open;
//   - nothing returns to unused, and no edge of usher.CodeTransitions is skipped;
//   - a claim and its redemption row commit together, so a device that lost the
//     answer gets the same one again under its transaction id;
//   - a device acts for its own event only: a code of another event is refused
//     by its text, without being looked up;
//   - only captured orders have codes, one per place.
//
// It must not decide from what a device says about time, log the text of a code
// or of a credential, or write anything when a scan is only read.
package redemption
