// Package embedded runs a private PostgreSQL cluster for `usher demo` and for
// tests: it finds the server's binaries, makes the data folder, starts the
// server on a unix socket, and stops it.
//
// What holds at any time:
//
//   - One usher process per data folder. An advisory lock on usher.lock says so;
//     it vanishes with the process, so it is never stale.
//   - The cluster folder exists only when complete. initdb works beside it and a
//     rename makes it visible, so a kill at any line leaves nothing half made.
//   - No TCP. Whoever can enter the 0700 socket folder is trusted: that is the
//     user who runs usher, and root.
//   - PostgreSQL refuses to run as root, so root's children run as postgres or
//     nobody.
//   - The server outlives a killed usher: no committed change is lost to an
//     abrupt end. The next Start adopts it, or cleans up after it.
//
// A data folder looks like this:
//
//	usher.lock   locked by the usher process that uses the folder, holds its pid
//	cluster/     PostgreSQL's own data directory
//	run/         the unix socket (a private temporary folder if the path is long)
//	server.log   the server's log, one older generation in server.log.old
package embedded
