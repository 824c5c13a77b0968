package paysim

import (
	"net/http"
	"slices"
)

// listMax and listDefault bound a page.
const (
	listMax     = 100
	listDefault = 10
)

// The parameters that each list knows, besides its cursors.
var (
	paramsPage        = []string{"limit", "starting_after", "ending_before", "created", "expand"}
	paramsListIntents = append([]string{"customer"}, paramsPage...)
	paramsListRefunds = append([]string{"payment_intent", "charge"}, paramsPage...)
	paramsListCharges = append([]string{"payment_intent"}, paramsPage...)
	paramsListEvents  = append([]string{"type", "types", "delivery_success"}, paramsPage...)
)

// listing is one kind of object in creation order. Ids of a kind sort as they
// were made, so a cursor is found by its text.
type listing struct {
	ids     []string
	created func(id string) int64
	match   func(id string) bool
	render  func(id string) any
}

// page answers a list: newest first, after or before a cursor.
func (c *call) page(l listing) answer {
	limit := int64(listDefault)
	if c.form.has("limit") {
		n, ok := c.form.integer("limit")
		if !ok || n < 1 || n > listMax {
			return fail(badParam("parameter_invalid_integer", "limit", "The limit must be 1 to %d", listMax))
		}
		limit = n
	}
	in, err := createdBounds(c.form)
	if err != nil {
		return fail(err)
	}
	at, step := len(l.ids)-1, -1
	for _, cursor := range []string{"starting_after", "ending_before"} {
		id := c.form.get(cursor)
		if id == "" {
			continue
		}
		i, found := slices.BinarySearch(l.ids, id)
		if !found {
			return fail(badParam(codeMissing, cursor, "No such object: '%.60s'", id))
		}
		if at, step = i-1, -1; cursor == "ending_before" {
			at, step = i+1, 1
		}
	}
	out := wireList{Object: "list", URL: c.path, Data: []any{}}
	for ; at >= 0 && at < len(l.ids); at += step {
		id := l.ids[at]
		if !in(l.created(id)) || !l.match(id) {
			continue
		}
		if int64(len(out.Data)) == limit {
			out.HasMore = true
			break
		}
		out.Data = append(out.Data, l.render(id))
	}
	if step > 0 {
		slices.Reverse(out.Data)
	}
	return answer{list: out}
}

// createdBounds reads created, created[gt], [gte], [lt] and [lte].
func createdBounds(f form) (func(int64) bool, *apiError) {
	type bound struct {
		name string
		in   func(created, limit int64) bool
	}
	bounds := []bound{
		{"created", func(a, b int64) bool { return a == b }},
		{"created[gt]", func(a, b int64) bool { return a > b }},
		{"created[gte]", func(a, b int64) bool { return a >= b }},
		{"created[lt]", func(a, b int64) bool { return a < b }},
		{"created[lte]", func(a, b int64) bool { return a <= b }},
	}
	limits := map[string]int64{}
	for _, b := range bounds {
		if !f.has(b.name) {
			continue
		}
		n, ok := f.integer(b.name)
		if !ok {
			return nil, badParam("parameter_invalid_integer", b.name, "Invalid timestamp")
		}
		limits[b.name] = n
	}
	return func(created int64) bool {
		return !slices.ContainsFunc(bounds, func(b bound) bool {
			limit, set := limits[b.name]
			return set && !b.in(created, limit)
		})
	}, nil
}

// listIntents answers GET /v1/payment_intents.
func (s *server) listIntents(_ *tx, c *call) answer {
	expand, err := expandable(c, "data.")
	if err != nil {
		return fail(err)
	}
	customer := c.form.get("customer")
	return c.page(listing{
		ids:     s.store.intentOrder,
		created: func(id string) int64 { return s.store.intents[id].Created },
		match:   func(id string) bool { return customer == "" || s.store.intents[id].Customer == customer },
		render:  func(id string) any { return s.render.intent(s.store.intents[id], expand) },
	})
}

// listRefunds answers GET /v1/refunds.
func (s *server) listRefunds(_ *tx, c *call) answer {
	ids, match := s.store.refundOrder, func(string) bool { return true }
	if p := c.form.get("payment_intent"); p != "" {
		ids = s.store.refundsOf[p]
	}
	if ch := c.form.get("charge"); ch != "" {
		match = func(id string) bool { return s.store.refunds[id].Charge == ch }
	}
	return c.page(listing{
		ids:     ids,
		created: func(id string) int64 { return s.store.refunds[id].Created },
		match:   match,
		render:  func(id string) any { return s.render.refund(s.store.refunds[id]) },
	})
}

// listCharges answers GET /v1/charges.
func (s *server) listCharges(_ *tx, c *call) answer {
	ids := s.store.chargeOrder
	if p := c.form.get("payment_intent"); p != "" {
		ids = nil
		if known := s.store.intents[p]; known != nil {
			for _, ch := range known.Charges {
				ids = append(ids, ch.ID)
			}
		}
	}
	find := func(id string) (*intent, *charge) {
		p := s.store.intents[s.store.charges[id]]
		return p, p.findCharge(id)
	}
	return c.page(listing{
		ids:     ids,
		created: func(id string) int64 { _, ch := find(id); return ch.Created },
		match:   func(string) bool { return true },
		render:  func(id string) any { p, ch := find(id); return s.render.charge(p, ch) },
	})
}

// getCharge answers GET /v1/charges/{id}.
func (s *server) getCharge(_ *tx, c *call) answer {
	p := s.store.intents[s.store.charges[c.id]]
	if p == nil {
		return fail(notFound("charge", c.id))
	}
	return answer{list: s.render.charge(p, p.findCharge(c.id))}
}

// listEvents answers GET /v1/events.
func (s *server) listEvents(_ *tx, c *call) answer {
	types := c.form.list("types")
	if one := c.form.get("type"); one != "" {
		types = append(types, one)
	}
	success := c.form.get("delivery_success")
	if success != "" && success != "true" && success != "false" {
		return fail(badParam("", "delivery_success", "Invalid boolean"))
	}
	return c.page(listing{
		ids:     s.store.eventOrder,
		created: func(id string) int64 { return s.store.events[id].Created },
		match: func(id string) bool {
			e := s.store.events[id]
			// An event that no endpoint wants counts as delivered.
			return (len(types) == 0 || slices.Contains(types, e.Type)) &&
				(success == "" || (success == "false") == (e.Wanted && !e.delivered))
		},
		render: func(id string) any { return s.render.event(s.store.events[id]) },
	})
}

// getEvent answers GET /v1/events/{id}.
func (s *server) getEvent(_ *tx, c *call) answer {
	e := s.store.events[c.id]
	if e == nil {
		return fail(&apiError{Status: http.StatusNotFound, Type: typeInvalid, Code: codeMissing, Param: "id",
			Message: "No such event: '" + c.id + "'"})
	}
	return answer{list: s.render.event(e)}
}
