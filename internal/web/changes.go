package web

import (
	"context"
	"net/http"
	"time"

	"usher"
	"usher/internal/ledger"
)

// changeView is one change of an event's inventory.
type changeView struct {
	Seq       int64            `json:"seq" doc:"Dense per event, in commit order"`
	CommandID usher.CommandID  `json:"commandId"`
	Aggregate string           `json:"aggregateId" doc:"The hold or order that changed"`
	Type      ledger.EntryType `json:"type"`
	Cause     string           `json:"cause"`
	Payload   ledger.Payload   `json:"payload"`
	At        time.Time        `json:"at"`
}

type changesInput struct {
	Event pathEvent `path:"eventId"`
	After int64     `query:"after" minimum:"0" doc:"The last number you have; 0 begins at the beginning"`
	Limit int       `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

type changesOutput struct {
	Body struct {
		Changes []changeView `json:"changes"`
		// Next is what to pass as after next time.
		Next int64 `json:"next" doc:"Pass this as after; the same number again means that nothing is new"`
	}
}

func (s *Server) addChanges() {
	add(s, route{
		id: "listChanges", method: http.MethodGet, path: "/v1/events/{eventId}/changes", tag: "Operating", who: staff,
		summary: "Every change of an event's inventory, in order",
		doc:     "Numbered without holes: resume after the last number and miss nothing. It carries account ids and no personal data.",
	}, s.listChanges)
}

func (s *Server) listChanges(ctx context.Context, in *changesInput) (*changesOutput, error) {
	if err := s.mayOperate(ctx, in.Event.EventID); err != nil {
		return nil, err
	}
	entries, err := s.deps.Ledger.Changes(ctx, in.Event.EventID, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &changesOutput{}
	out.Body.Changes, out.Body.Next = make([]changeView, 0, len(entries)), in.After
	for _, e := range entries {
		out.Body.Changes = append(out.Body.Changes, changeView{
			Seq: e.Seq, CommandID: e.Command, Aggregate: e.Aggregate, Type: e.Type, Cause: e.Cause, Payload: e.Payload, At: e.At.UTC(),
		})
		out.Body.Next = e.Seq
	}
	return out, nil
}
