package pgtest

import (
	"testing"
	"time"

	"usher/internal/pg"
)

// Homes opens pools on a database that is directory, room and shard 1 at once.
// They are closed at the end of the test.
func Homes(t testing.TB, url string) *pg.Homes {
	t.Helper()
	homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}})
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(homes.Close)
	return homes
}

// untilMax is when what a test waits for counts as never happening.
const untilMax = 30 * time.Second

// Until asks again and again until done says so: nothing tells a test when another
// session of the database begins to wait.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(untilMax)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		}
	}
}
