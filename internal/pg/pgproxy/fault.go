package pgproxy

import (
	"strings"
	"sync/atomic"
	"time"
)

// Action is what happens to a statement that a fault matches.
type Action struct {
	kind     kind
	delay    time.Duration
	sqlState string
}

type kind int

const (
	swallowAnswer kind = iota
	reset
	delay
	late
	silence
	silenceAnswer
	refuse
)

// SwallowAnswer lets the server execute the statement and answer, drops the
// answer and resets the connection: done, but its sender cannot know.
func SwallowAnswer() Action { return Action{kind: swallowAnswer} }

// Reset resets the connection before the server sees the statement.
func Reset() Action { return Action{kind: reset} }

// Delay passes the statement on after a pause.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Late resets the sender's side at once and passes the statement on to the
// server after a pause: the sender runs again while its older self still lives.
func Late(d time.Duration) Action { return Action{kind: late, delay: d} }

// Silence makes the connection say nothing from this statement on, which the
// server does not see until Heal.
func Silence() Action { return Action{kind: silence} }

// SilenceAnswer lets the server execute the statement, and makes the connection
// say nothing from then on until Heal.
func SilenceAnswer() Action { return Action{kind: silenceAnswer} }

// Refuse answers the statement with an error of the given SQLSTATE; the server
// never sees it.
func Refuse(sqlState string) Action { return Action{kind: refuse, sqlState: sqlState} }

// Fault is an armed action.
type Fault struct {
	proxy *Proxy
	sql   string
	pass  int64
	do    Action
	seen  atomic.Int64
	fired atomic.Int64
}

// Arm makes the pass-th execution of a statement that contains sql, in any case,
// meet the action; 1 is the first, 0 is every one.
func (p *Proxy) Arm(sql string, pass int, do Action) *Fault {
	f := &Fault{proxy: p, sql: strings.ToLower(sql), pass: int64(pass), do: do}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// Fired is how many statements have met the action. A test whose fault never
// fired has proved nothing.
func (f *Fault) Fired() int { return int(f.fired.Load()) }

// Disarm ends the fault.
func (f *Fault) Disarm() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	for i, o := range f.proxy.faults {
		if o == f {
			f.proxy.faults = append(f.proxy.faults[:i:i], f.proxy.faults[i+1:]...)
			return
		}
	}
}

// meet returns the action that an execution of the statement meets, if any.
func (p *Proxy) meet(sql string) (Action, bool) {
	sql = strings.ToLower(sql)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if !strings.Contains(sql, f.sql) {
			continue
		}
		if n := f.seen.Add(1); f.pass == 0 || n == f.pass {
			f.fired.Add(1)
			return f.do, true
		}
	}
	return Action{}, false
}
