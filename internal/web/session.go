package web

import (
	"context"
	"net/http"
	"time"

	"usher"
	"usher/internal/account"
)

type codeRequest struct {
	Email  string `json:"email" maxLength:"512" doc:"Where the code goes"`
	Locale string `json:"locale,omitempty" maxLength:"64" doc:"Language of the mail: en or zh-Hant; by default what Accept-Language says"`
}

type codeInput struct {
	AcceptLanguage string `header:"Accept-Language"`
	Body           codeRequest
}

type signInRequest struct {
	Email string `json:"email" maxLength:"512"`
	Code  string `json:"code" maxLength:"64" doc:"The six digits of the mail"`
}

type signInInput struct {
	Body signInRequest
}

// sessionView is a sign-in. The token is there once, in the answer that made it.
type sessionView struct {
	AccountID usher.AccountID `json:"accountId"`
	ExpiresAt time.Time       `json:"expiresAt"`
	Email     string          `json:"email,omitempty"`
	Name      string          `json:"name,omitempty"`
	Locale    string          `json:"locale,omitempty"`
	Token     string          `json:"token,omitempty" doc:"For clients without cookies: send it as Authorization: Bearer"`
}

type sessionOutput struct {
	Cookie http.Cookie `header:"Set-Cookie"`
	Body   sessionView
}

type ownSessionOutput struct {
	Body sessionView
}

type signOutOutput struct {
	Cookie http.Cookie `header:"Set-Cookie"`
}

type emptyOutput struct{}

func (s *Server) addSession() {
	add(s, route{
		id: "requestCode", method: http.MethodPost, path: "/v1/session/code", tag: "Signing in", status: http.StatusAccepted,
		summary: "Send a sign-in code",
		doc:     "The answer is the same whether or not the address has an account.",
	}, s.requestCode)
	add(s, route{
		id: "signIn", method: http.MethodPost, path: "/v1/session", tag: "Signing in", status: http.StatusCreated,
		summary: "Sign in with a code",
		doc:     "Makes the account at the first time. Browsers get a cookie; others use the token.",
	}, s.signIn)
	add(s, route{
		id: "getSession", method: http.MethodGet, path: "/v1/session", tag: "Signing in", who: buyers,
		summary: "Who is signed in",
	}, s.getSession)
	add(s, route{
		id: "signOut", method: http.MethodDelete, path: "/v1/session", tag: "Signing in", who: buyers, status: http.StatusNoContent,
		summary: "Sign out",
	}, s.signOut)
}

func (s *Server) requestCode(ctx context.Context, in *codeInput) (*emptyOutput, error) {
	q := requestOf(ctx)
	if err := s.allow("code_address", s.limits.codeAddress, addrKey(q.addr)); err != nil {
		return nil, err
	}
	locale := in.Body.Locale
	if locale == "" {
		locale = in.AcceptLanguage
	}
	return &emptyOutput{}, s.deps.Accounts.RequestCode(ctx, in.Body.Email, locale, q.addr)
}

func (s *Server) signIn(ctx context.Context, in *signInInput) (*sessionOutput, error) {
	q := requestOf(ctx)
	if err := s.allow("sign_in_address", s.limits.signInAddress, addrKey(q.addr)); err != nil {
		return nil, err
	}
	token, session, err := s.deps.Accounts.SignIn(ctx, in.Body.Email, in.Body.Code, q.addr)
	if err != nil {
		return nil, err
	}
	q.account = session.Account
	return &sessionOutput{
		Cookie: s.sessionCookie(token, account.SessionTime),
		Body:   sessionView{AccountID: session.Account, ExpiresAt: session.ExpiresAt.UTC(), Token: token},
	}, nil
}

func (s *Server) getSession(ctx context.Context, _ *struct{}) (*ownSessionOutput, error) {
	session := buyerOf(ctx)
	p, err := s.deps.Accounts.Person(ctx, session.Account)
	if err != nil {
		return nil, err
	}
	return &ownSessionOutput{Body: sessionView{
		AccountID: session.Account, ExpiresAt: session.ExpiresAt.UTC(), Email: p.Email, Name: p.Name, Locale: p.Locale,
	}}, nil
}

func (s *Server) signOut(ctx context.Context, _ *struct{}) (*signOutOutput, error) {
	if err := s.deps.Accounts.SignOut(ctx, buyerOf(ctx)); err != nil {
		return nil, err
	}
	return &signOutOutput{Cookie: s.sessionCookie("", 0)}, nil
}
