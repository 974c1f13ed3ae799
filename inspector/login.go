package inspector

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/greenroomdb/greenroom/admin"
)

// loginPage asks for a token.
type loginPage struct {
	Next   string // where the visitor wanted to go
	Failed string // why a token was refused
}

// showLogin asks for a token.
func (p *Page) showLogin(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, nil, "login", "Log in", &loginPage{Next: localPath(r.URL.Query().Get("next"))})
}

// maxForm bounds the body of a form, in bytes.
const maxForm = 2 << 20

// login begins a session.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	key, err := p.sessions.open(r.Context(), strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		p.log.Warn("inspector: login refused", slog.String("from", r.RemoteAddr), slog.Any("error", err))
		why := "The API can't be reached: " + err.Error()
		if e := (*admin.Error)(nil); errors.As(err, &e) {
			why = "No token of this store is like that."
		}
		render(w, http.StatusUnauthorized, nil, "login", "Log in", &loginPage{next, why})
		return
	}
	p.log.Info("inspector: login", slog.String("from", r.RemoteAddr))
	// Lax, so that a link from elsewhere finds its visitor logged in: no link changes anything.
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: key, Path: "/", HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// logout ends a session.
func (p *Page) logout(w http.ResponseWriter, r *http.Request) {
	p.sessions.forget(r)
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// secure reports whether the browser speaks TLS, to the page or to a proxy before it.
func secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// toLogin sends a visitor without a session to log in, and then to come back.
func toLogin(w http.ResponseWriter, r *http.Request) {
	where := "/login"
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		where += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	http.Redirect(w, r, where, http.StatusSeeOther)
}

// localPath returns a path of this page, / unless text is one: // would be another site, and so would /\ in a browser, which leaves out line ends too.
func localPath(text string) string {
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.Contains(text, "\\") || strings.ContainsFunc(text, unicode.IsControl) {
		return "/"
	}
	return text
}
