// Package inspector is a page in a browser that shows a store: which hosts use it, which actors it has, and what each of them holds and does, which is its
// database, keys, queue, workflow, traces, connections and state.
//
// A Page is an http.Handler. It stands on the API of package admin and has no other way into the store: what a visitor sees and does is what the visitor's
// token may read and write there. greenroom serve and greenroom host --admin serve one; a program of its own serves one beside its API:
//
//	ln, err := net.Listen("tcp", "127.0.0.1:6421")
//	…
//	page := inspector.New(func(ctx context.Context, secret string) (*admin.Client, error) {
//		return admin.DialAddress(ctx, ln.Addr().String(), secret)
//	}, nil)
//	defer page.Close()
//	api, err := admin.Serve(ctx, ln, store, &admin.Options{Tokens: tokens, Page: page})
//
// The server writes all of the page, and the program embeds it: a browser loads nothing from elsewhere. It runs one script of the page's own. Without the script
// there are no live updates, no completion and history in the SQL console, no questions before a form does what can't be undone, and no login by a link.
package inspector

// Files, from the top down:
//
//	inspector.go overview.go actors.go actor.go verbs.go console.go grid.go database.go edit.go state.go keytree.go queue.go workflow.go traces.go connections.go
//	live.go login.go guard.go visit.go render.go form.go samples.go timeline.go session.go values.go

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// Options change what New does; nil is the zero Options.
type Options struct {
	// Hosts are the names by which browsers reach the page, without ports, besides localhost and addresses of IP. A request for any other is refused, so that a name
	// of another site that resolves to this machine reaches nothing.
	Hosts []string
	// Logger is told which visitors logged in, and which requests failed; nil means slog.Default().
	Logger *slog.Logger
}

// A Page shows a store. All methods are safe for concurrent use.
type Page struct {
	log      *slog.Logger
	names    guard
	sessions sessions
	samples  samples
	mux      *http.ServeMux
}

// New returns a page whose visitors log in with the secret of a token of the API: dial returns a client with it, as admin.DialAddress does, or an error if the API
// refuses it. The Page closes the clients. The caller closes the Page.
func New(dial func(ctx context.Context, secret string) (*admin.Client, error), opts *Options) *Page {
	var o Options
	if opts != nil {
		o = *opts
	}
	p := &Page{log: o.Logger, names: guard{"localhost": true}, sessions: sessions{dial: dial, now: time.Now}}
	if p.log == nil {
		p.log = slog.Default()
	}
	for _, name := range o.Hosts {
		p.names[strings.ToLower(name)] = true
	}
	p.mux = p.routes()
	return p
}

// Close ends all sessions.
func (p *Page) Close() { p.sessions.close() }

// files are what browsers load besides pages.
//
//go:embed static
var files embed.FS

// routes returns what is where. Whatever is read is asked for with GET, and whatever changes something with POST.
func (p *Page) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.FileServerFS(files))
	mux.HandleFunc("GET /login", p.showLogin)
	mux.HandleFunc("POST /login", p.login)
	mux.HandleFunc("POST /logout", p.logout)
	mux.HandleFunc("GET /events", p.visited(events))
	for path, show := range map[string]view{
		"/{$}": overview, "/actors": listActors, "/": notFound,
	} {
		mux.HandleFunc("GET "+path, p.visited(page(show)))
	}
	for method, views := range map[string]map[string]view{
		http.MethodGet: {
			"": showActor, "/tables": listTables, "/tables/{table}": showTable, "/tables/{table}/cell": showCell, "/sql": showConsole, "/keys": listKeys, "/keys/{key}": showKey, "/queue": listMessages,
			"/workflow": showWorkflow, "/traces": listTraces, "/traces/{trace}": showTrace, "/connections": listConnections, "/state": showState,
		},
		http.MethodPost: {"/sql": runConsole, "/do/{verb}": do},
	} {
		for path, show := range views {
			mux.HandleFunc(method+" /actors/{actor}"+path, p.visited(page(ofActor(show))))
		}
	}
	return mux
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if err := p.names.check(r); err != nil {
		p.log.Warn("inspector: refused", slog.String("from", r.RemoteAddr), slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
		fail(w, nil, err)
		return
	}
	p.mux.ServeHTTP(w, r)
}
