package web

import (
	"context"
	"fmt"
	"net/http"

	"usher"
	"usher/internal/audit"
)

// auditRequest names the events to audit.
type auditRequest struct {
	EventIDs []string `json:"eventIds,omitempty" maxItems:"1000" pattern:"^evt_[1-9][0-9]{0,7}$" patternDescription:"an event's id" doc:"Audit these events alone; all by default"`
}

type auditInput struct {
	Body auditRequest
}

type auditOutput struct {
	Body *audit.Report
}

func (s *Server) addAudit() {
	add(s, route{
		id: "runAudit", method: http.MethodPost, path: "/v1/admin/audit", tag: "Operating", who: staff, status: http.StatusOK,
		summary: "Check every invariant now",
		doc:     "Re-derives from the rows whether usher kept its promises, and names each violation. It only reads, in short slices, and may run during a sale. For the house's own staff only.",
	}, s.runAudit)
}

func (s *Server) runAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	if !operatorOf(ctx).Tenant.IsZero() {
		return nil, usher.Errorf(usher.CodeForbidden, "the audit is for the house's own staff")
	}
	events := make([]usher.EventID, len(in.Body.EventIDs))
	for i, text := range in.Body.EventIDs {
		var err error
		if events[i], err = bodyID[usher.EventID](fmt.Sprintf("eventIds[%d]", i), text); err != nil {
			return nil, err
		}
	}
	report, err := s.deps.Audit(ctx, events...)
	if err != nil {
		return nil, err
	}
	return &auditOutput{Body: report}, nil
}
