// Package usher holds the nouns of the system: ids, money, states with their
// legal transitions, rules of an event, and the closed list of error codes.
//
// It knows no database, no HTTP and no clock; it imports the standard library
// only, and everything else in the module imports it. A word means the same
// here as in SQL, in routes, in metrics and on the pages: an account *holds*
// places, *checks out*, an order is *confirmed*, codes are *claimed* and
// *redeemed*.
package usher
