// Package mailcatch is a mail server for demos, rehearsals and tests: it takes
// every mail over SMTP on loopback, delivers none, and shows them on a small web
// page and as JSON.
//
// It keeps the newest 2,000 mails (at most 256 MiB) in memory and in one file of
// its data folder. A mail is in the file before the sender is told that it was
// taken, so ending or killing the process loses none; it is not forced to the
// disk, so a power cut may.
//
// Senders can be made to fail: a recipient at the domain bounce.invalid (or below
// it) is refused for good with 550, one at busy.invalid for now with 451. Mails to rehearsal.invalid, where
// simulated people are at home, are taken and forgotten: thousands of them would
// push out the mails that somebody is looking for.
//
// A mail is hostile input: it is parsed with bounds, its HTML is shown in a
// sandboxed frame that runs no script and loads nothing, and every page has a
// strict content security policy. Only requests that name a loopback host (or
// one of Config.Hosts) are answered, so that no web site can read the mails
// through a name it points at this machine.
package mailcatch
