package inspector

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
)

// A visit is a request of a visitor that is logged in.
type visit struct {
	*session
	page  *Page
	w     http.ResponseWriter
	r     *http.Request
	actor *admin.Actor // whose page it is; nil for none
	again *form        // is shown if the visit fails; nil for none
}

// A view returns what a page shows: the title, the template, and its data.
type view func(ctx context.Context, v *visit) (*shown, error)

// A shown is what a page shows.
type shown struct {
	Title    string
	Template string // pages/NAME.html
	Data     any
	Live     string // when the page loads itself anew: actor, at each commit of the actor; clock, every two seconds; "", never
	Status   int    // of HTTP; 0 is 200
	Location string // where the browser goes on; "" shows the page
}

// visited serves visitors that are logged in, and sends others to log in.
func (p *Page) visited(serve func(v *visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := p.sessions.of(r)
		switch {
		case err != nil:
			fail(w, nil, err)
		case s == nil:
			toLogin(w, r)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			serve(&visit{session: s, page: p, w: w, r: r})
		}
	}
}

// page shows a view.
func page(show view) func(v *visit) {
	return func(v *visit) {
		s, err := show(v.r.Context(), v)
		if err == nil {
			s.render(v)
			return
		}
		if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "unauthorized" { // the token isn't one any more
			v.page.sessions.forget(v.r)
			toLogin(v.w, v.r)
			return
		}
		v.page.log.Info("inspector: failed", slog.String("path", v.r.URL.Path), slog.Any("error", err))
		fail(v.w, v, err)
	}
}

// ofActor returns a view of the actor that the path names.
func ofActor(show view) view {
	return func(ctx context.Context, v *visit) (*shown, error) {
		a, err := admin.Get[admin.Actor](ctx, v.client, "actors/"+url.PathEscape(v.r.PathValue("actor")), nil)
		if err != nil {
			return nil, err
		}
		v.actor = a
		s, err := show(ctx, v)
		if s != nil {
			s.Title += " · " + nameOf(a)
		}
		return s, err
	}
}

// notFound is what is at paths that have nothing.
func notFound(_ context.Context, v *visit) (*shown, error) {
	return nil, &admin.Error{Code: "not_found", Message: "There is nothing at " + v.r.URL.Path + "."}
}

// get reads what the API has of the actor of the visit, below its path.
func get[Out any](ctx context.Context, v *visit, path string, params url.Values) (*Out, error) {
	return admin.Get[Out](ctx, v.client, "actors/"+url.PathEscape("id:"+v.actor.ID)+path, params)
}

// missing reports whether the API says that what it was asked for isn't there.
func missing(err error) bool {
	e := (*admin.Error)(nil)
	return errors.As(err, &e) && e.Code == "not_found"
}

// query runs SQL on the database of the actor of the visit.
func (v *visit) query(ctx context.Context, in *admin.QueryIn) (*admin.QueryOut, error) {
	return v.client.Query(ctx, "id:"+v.actor.ID, in)
}

// param returns a parameter of the URL, "" for none.
func (v *visit) param(name string) string { return v.r.URL.Query().Get(name) }

// tab returns the first word behind the actor in the path of the visit.
func (v *visit) tab() string {
	path := strings.TrimPrefix(v.r.URL.Path, "/actors/"+v.r.PathValue("actor"))
	tab, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return tab
}

// only returns the parameters of the URL that have one of these names and aren't empty.
func (v *visit) only(names ...string) url.Values {
	params := url.Values{}
	for _, name := range names {
		for _, value := range v.r.URL.Query()[name] {
			if value != "" {
				params.Add(name, value)
			}
		}
	}
	return params
}

// next returns the URL of the page behind this one, "" on the last page.
func (v *visit) next(after string) string {
	if after == "" {
		return ""
	}
	params := v.r.URL.Query()
	params.Set("after", after)
	return "?" + params.Encode()
}
