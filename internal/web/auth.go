package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"usher"
	"usher/internal/account"
	"usher/internal/redemption"
)

// The session cookie's names. The prefix makes a browser refuse the cookie
// unless it is Secure, for the whole host and from the host itself; a demo on
// plain http cannot have that.
const (
	cookieSecure = "__Host-usher_session"
	cookiePlain  = "usher_session"
)

// The prefixes tell credentials apart before anything is looked up.
const (
	operatorPrefix = "usk_"
	devicePrefix   = "udv_"
)

// authenticate lets a route's audience in. It runs before the body is read.
func (s *Server) authenticate(who audience) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		if err := s.identify(r, who); err != nil {
			s.fail(w, r, err)
			return
		}
		next(ctx)
	}
}

// identify verifies the credential of one audience and notes who it belongs to.
func (s *Server) identify(r *http.Request, who audience) error {
	q := requestOf(r.Context())
	switch who {
	case buyers:
		session, err := s.session(r)
		if err != nil {
			return err
		}
		q.session, q.account = session, session.Account
	case staff:
		key := bearer(r)
		if !strings.HasPrefix(key, operatorPrefix) {
			return usher.Errorf(usher.CodeUnauthenticated, "an operator's key is required")
		}
		operator, err := s.deps.Accounts.Operator(r.Context(), key)
		if err != nil {
			return err
		}
		q.operator = operator
	case machines:
		credential := bearer(r)
		if !strings.HasPrefix(credential, devicePrefix) {
			return usher.Errorf(usher.CodeUnauthenticated, "a device's credential is required")
		}
		device, err := s.deps.Redemption.Device(r.Context(), credential)
		if err != nil {
			return err
		}
		q.device = device
	}
	return nil
}

// session verifies a buyer's token, from the Authorization header or the cookie,
// without SQL.
func (s *Server) session(r *http.Request) (account.Session, error) {
	text := bearer(r)
	if text == "" {
		if c, err := r.Cookie(s.cookieName()); err == nil {
			text = c.Value
		}
	}
	if text == "" {
		return account.Session{}, usher.Errorf(usher.CodeUnauthenticated, "sign in first")
	}
	return s.deps.Accounts.Verify(text)
}

// bearer returns the token of the Authorization header, or "".
func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (s *Server) cookieName() string {
	if s.cfg.secure() {
		return cookieSecure
	}
	return cookiePlain
}

// sessionCookie makes the cookie of a session; an empty token ends it.
func (s *Server) sessionCookie(token string, lives time.Duration) http.Cookie {
	c := http.Cookie{
		Name: s.cookieName(), Value: token, Path: "/", HttpOnly: true,
		Secure: s.cfg.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(lives.Seconds()),
	}
	if token == "" {
		c.MaxAge = -1
	}
	return c
}

// The three of them panic outside a route of their audience: a route without
// its audience is a programming error.

func buyerOf(ctx context.Context) account.Session { return requestOf(ctx).session }

func operatorOf(ctx context.Context) account.Operator { return requestOf(ctx).operator }

func deviceOf(ctx context.Context) redemption.Device { return requestOf(ctx).device }
