package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"usher"
	"usher/internal/waitingroom"
)

// placeView is an account's place in a queue.
type placeView struct {
	EventID usher.EventID `json:"eventId"`
	Round   int           `json:"round"`
	Bucket  int64         `json:"bucket" doc:"Everybody of one bucket is in an order that was drawn"`
	// Number is null while the bucket is open: ask again in a second.
	Number   *int64                  `json:"number" doc:"The place in line, from 0; null until the bucket closes. It never changes. People ahead: number minus the now document's serving"`
	Status   waitingroom.PlaceStatus `json:"status" enum:"waiting,called,lapsed,admitted,left"`
	Ticket   string                  `json:"ticket" doc:"Proof of the place"`
	JoinedAt time.Time               `json:"joinedAt"`
	// ClaimSeconds is set for a called place.
	ClaimSeconds int64     `json:"claimSeconds,omitempty" doc:"How much longer a called turn waits, while the room admits"`
	ServerTime   time.Time `json:"serverTime"`
}

type placeOutput struct {
	Body placeView
}

// admissionView lets its account into the shop.
type admissionView struct {
	AdmissionToken string    `json:"admissionToken" doc:"Goes with every hold; it owns no seat"`
	ExpiresAt      time.Time `json:"expiresAt" doc:"When the token ends; ask again for a fresh one while the session lives"`
	// SessionExpiresAt moves on while the session is used.
	SessionExpiresAt time.Time       `json:"sessionExpiresAt" doc:"When the visit ends unless it is used before"`
	SessionID        usher.SessionID `json:"sessionId"`
}

type admissionOutput struct {
	Cookie http.Cookie `header:"Set-Cookie"`
	Body   admissionView
}

func (s *Server) addQueue() {
	s.document(huma.Operation{
		OperationID: "getQueueNow", Method: http.MethodGet, Path: "/v1/events/{eventId}/queue/now", Tags: []string{"Queueing"},
		Summary:     "The one document that everybody who waits reads",
		Description: "The same for all, without cookies, and cacheable for a second. Compute the people ahead and the time left from it, and read it as often as its pace table says.",
		Parameters:  []*huma.Param{eventParam},
	}, map[int]string{http.StatusOK: "application/json", http.StatusNotModified: ""})
	add(s, route{
		id: "joinQueue", method: http.MethodPost, path: "/v1/events/{eventId}/queue", tag: "Queueing", who: buyers, status: http.StatusOK,
		summary: "Take a place in the queue",
		doc:     "One place per account, whatever tabs, devices and repeats. Who lapsed or left gets a new place at the end.",
	}, s.joinQueue)
	add(s, route{
		id: "leaveQueue", method: http.MethodDelete, path: "/v1/events/{eventId}/queue", tag: "Queueing", who: buyers, status: http.StatusNoContent,
		summary: "Give the place up",
		doc:     "Ends the visit to the shop, too. What is held stays held until its deadline.",
	}, s.leaveQueue)
	add(s, route{
		id: "getPlace", method: http.MethodGet, path: "/v1/events/{eventId}/queue/me", tag: "Queueing", who: buyers,
		summary: "Your place",
	}, s.getPlace)
	add(s, route{
		id: "admit", method: http.MethodPost, path: "/v1/events/{eventId}/queue/admit", tag: "Queueing", who: buyers, status: http.StatusOK,
		summary: "Enter the shop when called",
		doc:     "Repeat it for a fresh token while the visit lasts. A called place that finds the shop full stays called.",
	}, s.admit)
}

// The answer's headers, set by direct assignment: this is the path that is
// asked for most.
var (
	nowType  = []string{"application/json"}
	nowCache = []string{"public, s-maxage=1, max-age=1, stale-while-revalidate=5, stale-if-error=60"}
	nosniff  = []string{"nosniff"}
	everyone = []string{"*"}
)

// queueNow answers the now document: no cookie and no query is looked at, no SQL
// runs, nothing is logged.
func (s *Server) queueNow(w http.ResponseWriter, r *http.Request) {
	event, err := usher.ParseEventID(r.PathValue("eventId"))
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	doc, ok := s.deps.Rooms.Now(event)
	if !ok {
		writeProblem(w, problemOf(usher.Errorf(usher.CodeNotFound, "no such waiting room")))
		return
	}
	h := w.Header()
	h["Etag"] = []string{doc.ETag}
	h["Cache-Control"] = nowCache
	h["X-Content-Type-Options"] = nosniff
	h["Access-Control-Allow-Origin"] = everyone
	if r.Header.Get("If-None-Match") == doc.ETag {
		w.WriteHeader(http.StatusNotModified)
		s.metrics.nowNotModified.Inc()
		return
	}
	h["Content-Type"] = nowType
	s.metrics.nowAnswered.Inc()
	// A phone that is gone is not worth a line.
	_, _ = w.Write(doc.Body)
}

func (s *Server) joinQueue(ctx context.Context, in *eventInput) (*placeOutput, error) {
	q := requestOf(ctx)
	if err := s.allow("join_account", s.limits.joinAccount, q.account.String()); err != nil {
		return nil, err
	}
	if err := s.allow("join_address", s.limits.joinAddress, addrKey(q.addr)); err != nil {
		return nil, err
	}
	t, err := s.deps.Rooms.Join(ctx, in.Event.EventID, q.account, waitingroom.Risk{})
	if err != nil {
		return nil, err
	}
	return &placeOutput{Body: placeViewOf(t)}, nil
}

func (s *Server) leaveQueue(ctx context.Context, in *eventInput) (*emptyOutput, error) {
	return &emptyOutput{}, s.deps.Rooms.Leave(ctx, in.Event.EventID, buyerOf(ctx).Account)
}

func (s *Server) getPlace(ctx context.Context, in *eventInput) (*placeOutput, error) {
	t, err := s.deps.Rooms.Me(ctx, in.Event.EventID, buyerOf(ctx).Account)
	if err != nil {
		return nil, err
	}
	return &placeOutput{Body: placeViewOf(t)}, nil
}

func (s *Server) admit(ctx context.Context, in *eventInput) (*admissionOutput, error) {
	a, err := s.deps.Rooms.Admit(ctx, in.Event.EventID, buyerOf(ctx).Account)
	if err != nil {
		return nil, err
	}
	return &admissionOutput{
		Cookie: s.admissionCookie(in.Event.EventID, a.Token),
		Body: admissionView{
			AdmissionToken: a.Token, ExpiresAt: a.ExpiresAt.UTC(), SessionExpiresAt: a.SessionExpiresAt.UTC(), SessionID: a.Session,
		},
	}, nil
}

// admissionCookie carries the admission to the event's live picture alone: a
// browser's event stream cannot send headers. Holds never read it.
func (s *Server) admissionCookie(event usher.EventID, token string) http.Cookie {
	return http.Cookie{
		Name: admissionCookieName, Value: token, Path: "/v1/events/" + event.String() + "/seats", HttpOnly: true,
		Secure: s.cfg.secure(), SameSite: http.SameSiteStrictMode, MaxAge: int(waitingroom.AdmissionLife.Seconds()),
	}
}

const admissionCookieName = "usher_admission"

func placeViewOf(t waitingroom.Ticket) placeView {
	v := placeView{
		EventID: t.Event, Round: t.Round, Bucket: t.Bucket, Number: t.Number, Status: t.Status,
		Ticket: t.Token, JoinedAt: t.JoinedAt.UTC(), ServerTime: t.Now.UTC(),
	}
	if t.Status == waitingroom.PlaceCalled {
		v.ClaimSeconds = int64(t.ClaimWithin / time.Second)
	}
	return v
}
