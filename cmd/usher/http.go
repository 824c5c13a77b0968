package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"usher/internal/web"
)

// drainWithin is how long requests in flight may take to finish once the end was
// asked for. Streams end at once: their readers connect again elsewhere.
const drainWithin = 10 * time.Second

// serveHTTP answers on the listener until ctx ends, and then lets what is in
// flight finish. drain is called first; it must end what does not end by itself.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, drain func()) error {
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	web.Timeouts(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	err := server.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests were cut off at the end", "after", drainWithin)
		err = server.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// probeTimeout bounds the check of another program at start.
const probeTimeout = 3 * time.Second

// reachable checks that something listens at an origin, so that a wrong address
// is told at start rather than by the first buyer.
func reachable(ctx context.Context, origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is no address", origin)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	d := net.Dialer{Timeout: probeTimeout}
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return conn.Close()
}
