package paysim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// action is what a fault does.
type action string

// Actions on a call. "Executed" means that the effect is durable and the key
// keeps its answer.
const (
	actionNone action = ""
	// actionRefuse closes the port for DelayMS (default 1 s): connections are
	// refused. It acts when it is set and has no selector.
	actionRefuse action = "refuse"
	// actionCloseBefore closes the connection; not executed.
	actionCloseBefore action = "close_before"
	// actionExecuteThenClose executes and closes the connection without an answer.
	actionExecuteThenClose action = "execute_then_close"
	// actionExecuteThenStall executes and holds the answer back for DelayMS.
	actionExecuteThenStall action = "execute_then_stall"
	// actionStallThenExecute waits DelayMS on the way in, then executes, whether or
	// not the caller still waits.
	actionStallThenExecute action = "stall_then_execute"
	// actionDelay executes DelayMS late, with the key marked as running.
	actionDelay action = "delay"
	// action500 stores a 500 under the key; not executed. action500Executed: executed.
	action500         action = "status_500"
	action500Executed action = "status_500_executed"
	// actionInUse answers 409, as if the key's first request still ran.
	actionInUse action = "in_use"
	// actionRateLimit answers 429 with Reason, or as a lock timeout if Reason is lock_timeout.
	actionRateLimit action = "rate_limit"
	// actionError answers Status and Code; not executed, not stored.
	actionError action = "error"
	// actionHTML502 answers as a proxy would; not executed. actionHTML502Executed: executed.
	actionHTML502         action = "html502"
	actionHTML502Executed action = "html502_executed"
	// Executed, with a body that cannot be used: cut off, no JSON, the wrong types.
	actionTruncate   action = "truncate"
	actionBadJSON    action = "bad_json"
	actionWrongTypes action = "wrong_types"
	// actionTrickle executes and sends the answer in pieces over DelayMS (default 1 s).
	actionTrickle action = "trickle"
)

// Actions on a webhook.
const (
	// actionHookDrop never delivers the event.
	actionHookDrop action = "webhook_drop"
	// actionHookDuplicate delivers it Times times (default 2).
	actionHookDuplicate action = "webhook_duplicate"
	// actionHookDelay delivers it DelayMS late.
	actionHookDelay action = "webhook_delay"
	// actionHookReorder holds it back until a later event of the same intent has
	// been delivered, for at most DelayMS (default 10 s).
	actionHookReorder action = "webhook_reorder"
	// actionHookBeforeAnswer delivers it before the call that caused it is answered.
	actionHookBeforeAnswer action = "webhook_before_answer"
)

var callActions = []action{actionCloseBefore, actionExecuteThenClose, actionExecuteThenStall, actionStallThenExecute, actionDelay,
	action500, action500Executed, actionInUse, actionRateLimit, actionError, actionHTML502, actionHTML502Executed, actionTruncate,
	actionBadJSON, actionWrongTypes, actionTrickle}

var hookActions = []action{actionHookDrop, actionHookDuplicate, actionHookDelay, actionHookReorder, actionHookBeforeAnswer}

// Rule is one fault with its selectors: all that are set have to fit.
type Rule struct {
	// ID names the rule; one is made up if empty.
	ID string `json:"id,omitempty"`
	// Method and Path select calls, as in "POST" and "/v1/payment_intents/*/confirm".
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Event selects webhooks by type, as in "payment_intent.*".
	Event string `json:"event,omitempty"`
	// Metadata, PaymentMethod and Amount select by the call's parameters or by the
	// intent that it is about.
	Metadata      map[string]string `json:"metadata,omitempty"`
	PaymentMethod string            `json:"paymentMethod,omitempty"`
	Amount        int64             `json:"amount,omitempty"`
	// Nth lets the first Nth-1 fitting calls pass. Count is how many it then acts
	// on, 0 without limit. Probability is the chance of each, 0 meaning always.
	Nth         int     `json:"nth,omitempty"`
	Count       int     `json:"count,omitempty"`
	Probability float64 `json:"probability,omitempty"`

	Action  string `json:"action"`
	DelayMS int    `json:"delayMs,omitempty"`
	Times   int    `json:"times,omitempty"`
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`

	// Fitted and Acted count, for GET /control/faults.
	Fitted int `json:"fitted"`
	Acted  int `json:"acted"`
}

// check refuses a rule that could never do what it says.
func (r *Rule) check() error {
	a := action(r.Action)
	switch {
	case a == actionRefuse:
	case slices.Contains(callActions, a):
		if r.Event != "" {
			return fmt.Errorf("action %q is for calls and takes no event", r.Action)
		}
	case slices.Contains(hookActions, a):
		if r.Method != "" || r.Path != "" {
			return fmt.Errorf("action %q is for webhooks and takes no method or path", r.Action)
		}
	default:
		return fmt.Errorf("unknown action %q", r.Action)
	}
	if a == actionError && (r.Status < 400 || r.Status > 599) {
		return fmt.Errorf("action %q needs a status of 400 to 599", r.Action)
	}
	if r.Probability < 0 || r.Probability > 1 || r.Nth < 0 || r.Count < 0 || r.DelayMS < 0 {
		return fmt.Errorf("probability is 0 to 1, nth, count and delayMs are not negative")
	}
	return nil
}

// subject is what selectors look at.
type subject struct {
	method, path, event string
	metadata            map[string]string
	paymentMethod       string
	amount              int64
}

func (r *Rule) fits(s subject) bool {
	if r.Method != "" && r.Method != s.method || !patternFits(r.Path, s.path, "/") || !patternFits(r.Event, s.event, ".") {
		return false
	}
	if r.PaymentMethod != "" && r.PaymentMethod != s.paymentMethod || r.Amount != 0 && r.Amount != s.amount {
		return false
	}
	for k, v := range r.Metadata {
		if s.metadata[k] != v {
			return false
		}
	}
	return true
}

// patternFits compares part by part; "*" fits any one part, as the last one also several.
func patternFits(pattern, text, sep string) bool {
	if pattern == "" {
		return true
	}
	want, have := strings.Split(pattern, sep), strings.Split(text, sep)
	for i, p := range want {
		if i >= len(have) || p != "*" && p != have[i] {
			return false
		}
	}
	return len(want) == len(have) || want[len(want)-1] == "*"
}

// fault is a rule that acts now.
type fault struct {
	Action  action
	DelayMS int
	Times   int
	Status  int
	Code    string
	Reason  string
}

// pause is the length of a stall.
func (f fault) pause() time.Duration { return f.delay(time.Minute) }

// delay is DelayMS, or the default.
func (f fault) delay(otherwise time.Duration) time.Duration {
	if f.DelayMS == 0 {
		return otherwise
	}
	return time.Duration(f.DelayMS) * time.Millisecond
}

// before is how much later than usual the call executes.
func (f fault) before() time.Duration {
	switch f.Action {
	case actionStallThenExecute, actionExecuteThenStall, actionTrickle:
		return 0
	}
	return f.delay(0)
}

// faultTable holds the rules in the order they were set. The first that acts wins.
type faultTable struct {
	seed uint64

	mu     sync.Mutex
	rules  []*Rule
	dice   []*rand.Rand
	issued int
}

func newFaultTable(seed uint64) *faultTable { return &faultTable{seed: seed} }

// add puts a checked rule at the end and returns its id. Each rule has dice of
// its own, so one rule's chances do not depend on the others.
func (t *faultTable) add(r Rule) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued++
	if r.ID == "" {
		r.ID = fmt.Sprintf("rule_%d", t.issued)
	}
	r.Fitted, r.Acted = 0, 0
	t.rules = append(t.rules, &r)
	t.dice = append(t.dice, rand.New(rand.NewPCG(t.seed, uint64(t.issued))))
	return r.ID
}

// remove drops the rule with the id, or all of them for "", and returns how many.
func (t *faultTable) remove(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.rules)
	for i := len(t.rules) - 1; i >= 0; i-- {
		if id == "" || t.rules[i].ID == id {
			t.rules = slices.Delete(t.rules, i, i+1)
			t.dice = slices.Delete(t.dice, i, i+1)
		}
	}
	return before - len(t.rules)
}

// list copies the rules with their counts.
func (t *faultTable) list() []Rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Rule, 0, len(t.rules))
	for _, r := range t.rules {
		out = append(out, *r)
	}
	return out
}

// empty spares the hot path the work of describing a call when there are no rules.
func (t *faultTable) empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rules) == 0
}

// pick returns the fault that acts on the subject, if any.
func (t *faultTable) pick(s subject, among []action) fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range t.rules {
		if !slices.Contains(among, action(r.Action)) || !r.fits(s) {
			continue
		}
		r.Fitted++
		if r.Fitted < r.Nth || r.Count > 0 && r.Acted >= r.Count {
			continue
		}
		if r.Probability > 0 && t.dice[i].Float64() >= r.Probability {
			continue
		}
		r.Acted++
		return fault{action(r.Action), r.DelayMS, r.Times, r.Status, r.Code, r.Reason}
	}
	return fault{}
}

// faultFor picks the fault of a call.
func (s *server) faultFor(c *call) fault {
	if s.faults.empty() {
		return fault{}
	}
	amount, _ := c.form.integer("amount")
	sub := subject{method: c.method, path: c.path, metadata: c.form.sub("metadata"),
		paymentMethod: c.form.get("payment_method"), amount: amount}
	id := c.id
	if id == "" {
		id = c.form.get("payment_intent")
	}
	s.mu.Lock()
	if p := s.store.intents[id]; p != nil {
		sub.of(p)
	}
	s.mu.Unlock()
	return s.faults.pick(sub, callActions)
}

// of fills in what the call did not say from the intent it is about.
func (s *subject) of(p *intent) {
	if s.metadata == nil {
		s.metadata = p.Metadata
	}
	if s.paymentMethod == "" {
		s.paymentMethod = p.PaymentMethod
	}
	if s.amount == 0 {
		s.amount = p.Amount
	}
}

// leave writes an answer with the faults that act on the way back.
func (s *server) leave(w http.ResponseWriter, c *call, f fault, out reply) {
	a := f.Action
	if out.after != actionNone {
		a = out.after
	}
	switch a {
	case actionCloseBefore, actionExecuteThenClose:
		drop()
	case actionExecuteThenStall:
		if s.pause(f.pause()) {
			s.write(w, c, out)
		} else {
			drop()
		}
	case actionHTML502Executed:
		writeHTML502(w)
	case actionTruncate:
		writeTruncated(w, out.body)
	case actionBadJSON:
		out.status, out.body = http.StatusOK, []byte(`{"id": "pi_`)
		s.write(w, c, out)
	case actionWrongTypes:
		out.status, out.body = http.StatusOK, []byte(`{"id":"pi_1","object":"payment_intent","amount":"much","status":7}`)
		s.write(w, c, out)
	case actionTrickle:
		s.trickle(w, c, f, out)
	default:
		s.write(w, c, out)
	}
}
