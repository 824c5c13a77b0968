package paysim

import (
	"net/http"
	"time"
)

// reply is what goes back over the wire.
type reply struct {
	status   int
	body     []byte
	err      *apiError // for the headers it asks for
	original string    // Request-Id of the first call with the key
	replayed bool
	events   []*event
	// after is a fault of the card that acts on the way back, once.
	after action
}

// layer runs a call behind its idempotency key: unknown key, run and keep the
// answer; running, 409; done, the kept answer; done with another request, 400.
func (s *server) layer(c *call, f fault) reply {
	switch f.Action {
	case actionInUse:
		return s.refuse(keyInUse(c.key))
	case actionRateLimit:
		return s.refuse(rateLimited(f.Reason))
	case actionError:
		return s.refuse(&apiError{Status: f.Status, Type: typeAPI, Code: f.Code, Message: "Injected."})
	}
	if out, answered := s.enter(c); answered {
		return out
	}
	card := s.cardOf(c)
	if !s.pause(s.latency.of(c.route.name) + f.before() + time.Duration(card.delayMS)*time.Millisecond) {
		return reply{after: actionCloseBefore}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.begin(c.request, c.key)
	var a answer
	if f.Action == action500 {
		a = fail(serverFailure())
	} else {
		a = c.route.run(s, t, c)
	}
	if f.Action == action500Executed {
		a = answer{intent: a.intent, err: serverFailure()}
	}
	out := reply{original: c.request, after: actionNone}
	if card.lostReply {
		out.after = actionExecuteThenClose
	}
	s.keep(c, t, a)
	if t.rec.Intent != nil || t.rec.Refund != nil || t.rec.Answer != nil {
		out.events = s.commit(t)
	}
	out.status, out.body, out.err = s.body(a)
	return out
}

// enter asks the key. It reports true with an answer that needs no execution.
func (s *server) enter(c *call) (reply, bool) {
	if c.key == "" {
		return reply{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.store.keys[c.key]
	if e == nil {
		s.store.keys[c.key] = &keyEntry{running: true, digest: c.digest, path: c.path, deliveries: 1}
		return reply{}, false
	}
	e.deliveries++
	switch {
	case e.answer == nil && !e.running:
		// Its calls so far were refused before anything was kept, so the key is free.
		e.running, e.digest, e.path = true, c.digest, c.path
		return reply{}, false
	case e.digest != c.digest:
		return s.refuse(keyReused(c.key, e.path)), true
	case e.running:
		return s.refuse(keyInUse(c.key)), true
	}
	kept := e.answer
	out := reply{original: kept.Request, replayed: true}
	out.status, out.body, out.err = s.body(answer{intent: kept.intent, refund: kept.refund, err: kept.Err, expand: kept.Expand})
	return out, true
}

// keep stores the answer under the key, or frees the key if the call was
// refused before anything was decided. The caller holds the mutex.
func (s *server) keep(c *call, t *tx, a answer) {
	if c.key == "" {
		return
	}
	if a.err != nil && a.err.unstored {
		s.store.keys[c.key].running = false
		return
	}
	kept := &storedAnswer{Key: c.key, Path: c.path, Digest: c.digest, Request: c.request, Created: t.unix(),
		Status: http.StatusOK, Expand: a.expand, Err: a.err}
	if a.err != nil {
		kept.Status = a.err.Status
	}
	if a.intent != nil {
		kept.Intent = a.intent.ID
	}
	if a.refund != nil {
		kept.Refund = a.refund.ID
	}
	t.rec.Answer = kept
}

// refuse answers without running anything.
func (s *server) refuse(err *apiError) reply {
	return reply{status: err.Status, body: s.errorBody(err, nil), err: err}
}

// body renders an answer.
func (s *server) body(a answer) (status int, body []byte, err *apiError) {
	switch {
	case a.err != nil:
		return a.err.Status, s.errorBody(a.err, a.intent), a.err
	case a.refund != nil:
		return http.StatusOK, mustJSON(s.render.refund(a.refund)), nil
	case a.intent != nil:
		return http.StatusOK, mustJSON(s.render.intent(a.intent, a.expand)), nil
	}
	return http.StatusOK, mustJSON(a.list), nil
}

// errorBody renders an error; the provider's own failures carry no object.
func (s *server) errorBody(err *apiError, p *intent) []byte {
	if err.Status >= http.StatusInternalServerError {
		p = nil
	}
	return mustJSON(map[string]*wireError{"error": s.render.failure(err, p)})
}

// cardOf returns what the card of a confirmation does; the zero behaviour for
// any other call.
func (s *server) cardOf(c *call) behaviour {
	if c.route.name != "confirm" {
		return behaviour{}
	}
	method := c.form.get("payment_method")
	if method == "" {
		s.mu.Lock()
		if p := s.store.intents[c.id]; p != nil {
			method = p.PaymentMethod
		}
		s.mu.Unlock()
	}
	b, _ := behaviourOf(method)
	return b
}
