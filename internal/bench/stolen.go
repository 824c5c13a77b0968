package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Stolen is how much of this machine's CPU time its host gave to others during a
// scenario, set-up included: 0 to 1 of all cores. A virtual machine whose host is
// busy measures its host; rows are comparable where little was stolen. Both are 0
// where the system does not say.
type Stolen struct {
	Share float64 `json:"share"`
	// WorstSecond is the share of the second in which most was stolen.
	WorstSecond float64 `json:"worstSecond"`
}

// String says both in words.
func (s Stolen) String() string {
	return fmt.Sprintf("%.1f %%, in the worst second %.1f %%", s.Share*100, s.WorstSecond*100)
}

// watchStolen watches until the function that it returns is called, which tells.
func watchStolen() (stop func() Stolen) {
	done, told := make(chan struct{}), make(chan Stolen)
	go func() {
		var s Stolen
		first := readCPUShares()
		last := first
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				now := readCPUShares()
				s.WorstSecond = max(s.WorstSecond, now.stolenSince(last))
				last = now
			case <-done:
				s.Share = readCPUShares().stolenSince(first)
				s.WorstSecond = max(s.WorstSecond, s.Share)
				told <- s
				return
			}
		}
	}()
	return func() Stolen {
		close(done)
		return <-told
	}
}

// cpuShares is where the time of all cores went since the machine started, in ticks.
type cpuShares struct{ all, stolen int64 }

func readCPUShares() cpuShares {
	raw, _ := os.ReadFile("/proc/stat")
	return parseCPUShares(string(raw))
}

// parseCPUShares reads the first line of /proc/stat (proc(5)): user, nice, system,
// idle, iowait, irq, softirq, steal; guest time is part of user's.
func parseCPUShares(stat string) (c cpuShares) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return c
	}
	for _, v := range f[1:9] {
		n, _ := strconv.ParseInt(v, 10, 64)
		c.all += n
	}
	c.stolen, _ = strconv.ParseInt(f[8], 10, 64)
	return c
}

func (c cpuShares) stolenSince(before cpuShares) float64 {
	return float64(max(c.stolen-before.stolen, 0)) / float64(max(c.all-before.all, 1))
}
