package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"usher"
	"usher/internal/ledger"
	"usher/internal/web"
)

// P79: a polite stop ends streams at once and lets other requests finish.
func TestServeHTTPDrains(t *testing.T) {
	l, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	draining, drain := context.WithCancel(t.Context())
	started, release := make(chan struct{}, 1), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-draining.Done()
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-release
		fmt.Fprint(w, "done")
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(ctx, l, mux, slog.New(slog.DiscardHandler), drain) }()

	base := "http://" + l.Addr().String()
	var streams []*http.Response
	for range 100 {
		resp, err := http.Get(base + "/stream")
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		streams = append(streams, resp)
	}
	slow := make(chan string, 1)
	go func() {
		resp, err := http.Get(base + "/slow")
		if err != nil {
			slow <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		slow <- string(b)
	}()
	<-started
	stop()
	<-draining.Done()
	close(release)
	if got := <-slow; got != "done" {
		t.Errorf("a request in flight ends with %q", got)
	}
	for _, s := range streams {
		if _, err := io.Copy(io.Discard, s.Body); err != nil {
			t.Errorf("a stream is cut off: %v", err)
		}
		_ = s.Body.Close()
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestDatabaseFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		flags databaseFlags
		want  string
		fails bool
	}{
		"none":      {databaseFlags{}, "", true},
		"one":       {databaseFlags{DatabaseURL: "a"}, "a a map[1:a]", false},
		"each":      {databaseFlags{DirectoryURL: "d", RoomURL: "r", ShardURL: map[string]secret{"2": "s2", "5": "s5"}}, "d r map[2:s2 5:s5]", false},
		"some":      {databaseFlags{DatabaseURL: "a", ShardURL: map[string]secret{"2": "s2"}}, "a a map[2:s2]", false},
		"no room":   {databaseFlags{DirectoryURL: "d", ShardURL: map[string]secret{"1": "s"}}, "", true},
		"bad shard": {databaseFlags{DatabaseURL: "a", ShardURL: map[string]secret{"x": "s"}}, "", true},
		"shard 0":   {databaseFlags{DatabaseURL: "a", ShardURL: map[string]secret{"0": "s"}}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := tc.flags.homes()
			if tc.fails {
				if err == nil {
					t.Fatal("accepted")
				}
				return
			}
			if got := fmt.Sprint(cfg.DirectoryURL, " ", cfg.RoomURL, " ", cfg.ShardURLs); err != nil || got != tc.want {
				t.Errorf("homes %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// What cannot work says what to do, before anything is started.
func TestServeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"no database":     {nil, nil, "USHER_DATABASE_URL"},
		"no provider":     {nil, map[string]string{"USHER_DATABASE_URL": "postgres://x"}, "USHER_STRIPE_SECRET_KEY"},
		"bad proxy":       {[]string{"--trusted-proxy", "10.0.0.1"}, map[string]string{"USHER_DATABASE_URL": "postgres://x"}, "10.0.0.0/8"},
		"missing file":    {[]string{"--database-url-file", "/nonexistent"}, nil, "/nonexistent"},
		"unknown role":    {[]string{"--role", "king"}, nil, "room"},
		"a bad rate":      {[]string{"--limit-joins", "often"}, nil, "no rate"},
		"unknown flag":    {[]string{"--databse-url", "x"}, nil, "databse"},
		"a bad log level": {[]string{"--log-level", "loud"}, nil, "loud"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			var c cli
			parser, err := kong.New(&c, kong.Resolvers(&configFile{}))
			if err != nil {
				t.Fatalf("parser: %v", err)
			}
			_, err = parser.Parse(append([]string{"serve"}, tc.args...))
			if err == nil {
				_, err = c.Serve.config(&process{ctx: t.Context(), log: slog.New(slog.DiscardHandler)})
			}
			if err == nil || !strings.Contains(explain(err), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestDefaultLimitsAreTheFlags(t *testing.T) {
	var c cli
	parser, err := kong.New(&c, kong.Resolvers(&configFile{}))
	if err != nil {
		t.Fatalf("parser: %v", err)
	}
	if _, err := parser.Parse([]string{"serve"}); err != nil {
		t.Fatalf("parse: %v", err)
	}
	if got := c.Serve.Limit.limits(); got != web.DefaultLimits() {
		t.Errorf("the flags give %+v, web %+v", got, web.DefaultLimits())
	}
}

func TestDatabaseThatIsAway(t *testing.T) {
	l, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	addr := l.Addr().String()
	closeListener(t, l)
	t.Setenv("USHER_DATABASE_URL", "postgres://usher:hunter2@"+addr+"/usher")
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatalf("parser: %v", err)
	}
	kctx, err := parser.Parse([]string{"migrate"})
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	err = kctx.Run(&process{ctx: t.Context(), log: slog.New(slog.DiscardHandler)})
	if exitCode(err) != exitMissing || strings.Contains(explain(err), "hunter2") {
		t.Errorf("migrate says %q and exits with %d", explain(err), exitCode(err))
	}
}

func TestReachable(t *testing.T) {
	l, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	if err := reachable(t.Context(), "http://"+l.Addr().String()); err != nil {
		t.Errorf("a listener is not reachable: %v", err)
	}
	closeListener(t, l)
	if err := reachable(t.Context(), "http://"+l.Addr().String()); err == nil {
		t.Error("nobody listens and it is reachable")
	}
	if err := reachable(t.Context(), "nonsense"); err == nil {
		t.Error("nonsense is reachable")
	}
}

func TestStock(t *testing.T) {
	snapshot := func(seats ...byte) []byte {
		packed := make([]byte, (len(seats)+3)/4)
		for i, s := range seats {
			packed[i>>2] |= s << (6 - 2*(i&3))
		}
		return fmt.Appendf(nil, `{"count":%d,"states":%q}`, len(seats), base64.StdEncoding.EncodeToString(packed))
	}
	sold := make([]byte, 21)
	for i := range sold {
		sold[i] = 2
	}
	many := append(make([]byte, 2*usher.PlacesMax+1), 1, 2, 3)
	few := append(make([]byte, 2*usher.PlacesMax), 1)
	held := append([]byte{1}, sold...)
	for want, seats := range map[usher.Stock][]byte{
		usher.StockMany: many, usher.StockFew: few, usher.StockInBaskets: held, usher.StockSoldOut: sold,
	} {
		if got, err := countSeats(snapshot(seats...)); err != nil || got.word() != want {
			t.Errorf("%v is %q, %v, want %q", seats, got.word(), err, want)
		}
	}
	for _, bad := range []string{"", "{}x", `{"count":5,"states":"AA=="}`, `{"count":1,"states":"!"}`} {
		if _, err := countSeats([]byte(bad)); err == nil {
			t.Errorf("%q is counted", bad)
		}
	}
	// Places without seats count like seats.
	left, err := countSeats(snapshot(sold...))
	if err != nil {
		t.Fatalf("count: %v", err)
	}
	left.add([]ledger.BucketState{{Bucket: 1, Held: 1, Sold: 9}})
	if left.word() != usher.StockInBaskets {
		t.Errorf("with one held it is %q", left.word())
	}
	left.add([]ledger.BucketState{{Bucket: 2, Available: 13}})
	if left.word() != usher.StockMany {
		t.Errorf("with thirteen free of 44 it is %q", left.word())
	}
}

func TestExplain(t *testing.T) {
	err := fmt.Errorf("outer: %w", &usher.Error{Code: usher.CodeUnavailable, Message: "start it", Err: errors.New("refused")})
	if got := explain(err); got != "start it (refused)" {
		t.Errorf("explain says %q", got)
	}
	if got := explain(errors.New("plain")); got != "plain" {
		t.Errorf("explain says %q", got)
	}
}
