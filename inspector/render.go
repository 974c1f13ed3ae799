package inspector

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"path"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
)

//go:embed pages
var pages embed.FS

// templates are the pages by their names. Each is pages/layout.html with pages/parts.html and its own file.
var templates = parse()

func parse() map[string]*template.Template {
	all := map[string]*template.Template{}
	base := template.Must(template.New("layout.html").Funcs(functions).ParseFS(pages, "pages/layout.html", "pages/parts.html"))
	entries, err := pages.ReadDir("pages")
	if err != nil {
		panic("inspector: " + err.Error())
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if name != "layout" && name != "parts" {
			all[name] = template.Must(template.Must(base.Clone()).ParseFS(pages, path.Join("pages", e.Name())))
		}
	}
	return all
}

// A layout is what pages/layout.html shows.
type layout struct {
	Title   string
	Session *session     // nil if the visitor isn't logged in
	Actor   *admin.Actor // nil for a page of none
	Tab     string       // the part of the actor that is shown
	Tabs    []tab
	Path    string // of the page, with its parameters
	Write   bool   // the visitor may change something
	Host    bool   // the process runs the actors
	Live    string
	Data    any
}

// A tab is a part of an actor.
type tab struct{ Path, Name string }

// tabs are the parts of an actor, in their order.
var tabs = []tab{
	{"", "Overview"}, {"tables", "Tables"}, {"sql", "SQL"}, {"keys", "Keys"}, {"queue", "Queue"}, {"workflow", "Workflow"}, {"traces", "Traces"},
	{"connections", "Connections"}, {"state", "State"},
}

// render answers with a page of a visit.
func (s *shown) render(v *visit) {
	if s.Location != "" {
		http.Redirect(v.w, v.r, s.Location, s.Status)
		return
	}
	if s.Status == 0 {
		s.Status = http.StatusOK
	}
	l := &layout{Title: s.Title, Session: v.session, Actor: v.actor, Live: s.Live, Data: s.Data, Path: v.r.URL.RequestURI(), Write: v.mayWrite(), Host: v.host}
	if v.actor != nil {
		l.Tabs, l.Tab = tabs, v.tab()
	}
	write(v.w, s.Status, s.Template, l)
}

// render answers with a page that belongs to no visit, or to v.
func render(w http.ResponseWriter, status int, v *visit, name, title string, data any) {
	l := &layout{Title: title, Data: data}
	if v != nil {
		l.Session, l.Actor, l.Tabs, l.Tab = v.session, v.actor, tabs, v.tab()
	}
	write(w, status, name, l)
}

// write answers with a page, as a whole or not at all.
func write(w http.ResponseWriter, status int, name string, l *layout) {
	var b bytes.Buffer
	if err := templates[name].Execute(&b, l); err != nil {
		http.Error(w, "The page can't be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // what doesn't arrive the browser misses
}

// A failure is what pages/error.html shows.
type failure struct {
	Message string
	Again   *form // nil for none
}

// fail answers with an error.
func fail(w http.ResponseWriter, v *visit, err error) {
	status, e := http.StatusBadGateway, (*admin.Error)(nil)
	if errors.As(err, &e) {
		status = e.Status()
	}
	what := failure{Message: err.Error()}
	if v != nil {
		what.Again = v.again
	}
	render(w, status, v, "error", http.StatusText(status), &what)
}
