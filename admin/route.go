package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
)

// A route is one thing that can be asked for.
type route struct {
	method, path string // as http.ServeMux has them
	what         string // it does, for the document
	params       []param
	in, out      any    // zero values of the types of the body and of the answer in JSON; nil for none
	takes, gives string // media types of a body and of an answer that aren't JSON
	protocol     string // that the connection is upgraded to; "" for HTTP
	reads        bool   // it changes nothing
	serve        func(s *Server, w http.ResponseWriter, r *http.Request)
}

// A param is one of the query of a URL.
type param struct {
	name, kind string   // kind is string, integer, boolean or date-time
	repeated   bool     // it may be there more than once
	of         []string // the values that it may have; nil means any
	what       string
}

var (
	createParam = param{name: "create", kind: "boolean", what: "Make the actor if it doesn't exist."}
	afterParam  = param{name: "after", kind: "string", what: "Begin behind the last one of an earlier answer, whose next this is."}
	limitParam  = param{name: "limit", kind: "integer", what: "The largest number that is answered, from 1 to 1000; 100 unless it is set."}
)

// Bounds of what is read at once.
const (
	maxLimit     = 1000
	defaultLimit = 100
	// readBytes bounds the values of a list, in bytes, but for the first one.
	readBytes = 4 << 20
	// readTime is how long a read may take. The answer is timeout then.
	readTime = 10 * time.Second
)

// read returns the route of something that is read of a store.
func read[Out any](path, what string, params []param, do func(ctx context.Context, s *greenroom.Store, q *query) (*Out, error)) route {
	return route{
		method: http.MethodGet, path: "/v1/" + path, what: what, params: params, out: *new(Out), reads: true,
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), readTime)
			defer cancel()
			q, err := newQuery(r, params)
			var out *Out
			if err == nil {
				out, err = do(ctx, s.store, q)
			}
			if err != nil {
				refuse(w, err)
				return
			}
			reply(w, out)
		},
	}
}

// readActor returns the route of something that is read of one state of an actor.
func readActor[Out any](path, what string, params []param, do func(ctx context.Context, v *greenroom.View, q *query) (*Out, error)) route {
	return read("actors/{actor}"+path, what, params, func(ctx context.Context, s *greenroom.Store, q *query) (out *Out, err error) {
		err = viewActor(ctx, s, q.actor, func(v *greenroom.View) (err error) {
			out, err = do(ctx, v, q)
			return err
		})
		return out, err
	})
}

// viewActor runs fn with one state of the actor that is named, as idOf says.
func viewActor(ctx context.Context, s *greenroom.Store, actor string, fn func(v *greenroom.View) error) error {
	id, err := idOf(ctx, s, actor)
	if err != nil {
		return err
	}
	err = s.ViewID(ctx, id, fn)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		err = say(err, "there is no actor %s", actor)
	}
	return err
}

// A query is what a URL says. What its methods find wrong is invalid.
type query struct {
	actor  string // "" for what is read of a store
	values url.Values
}

// newQuery returns what the URL of r says: params, each at most once unless it is repeated.
func newQuery(r *http.Request, params []param) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query of the URL: %v", err)
	}
	for name, texts := range values {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, invalid("there is no parameter %q here", name)
		}
		if len(texts) > 1 && !params[i].repeated {
			return nil, invalid("the parameter %s is there more than once", name)
		}
		for _, text := range texts {
			if of := params[i].of; of != nil && !slices.Contains(of, text) {
				return nil, invalid("%s is %s, not %q", name, strings.Join(of, ", "), text)
			}
		}
	}
	return &query{r.PathValue("actor"), values}, nil
}

// invalid returns the error of a request that makes no sense.
func invalid(format string, args ...any) error {
	return &Error{Code: "invalid", Message: fmt.Sprintf(format, args...)}
}

func (q *query) text(name string) string { return q.values.Get(name) }

// flag is true or false, false if it isn't there.
func (q *query) flag(name string) (bool, error) {
	switch q.text(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalid("%s is true or false, not %q", name, q.text(name))
}

// number is a number from 0 on, 0 if it isn't there.
func (q *query) number(name string) (uint64, error) {
	if !q.values.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.text(name), 10, 64)
	if err != nil {
		return 0, invalid("%s is a number from 0 on, not %q", name, q.text(name))
	}
	return n, nil
}

// limit is how many are answered at most.
func (q *query) limit() (int, error) {
	if !q.values.Has("limit") {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(q.text("limit"))
	if err != nil || n < 1 || n > maxLimit {
		return 0, invalid("limit is a number from 1 to %d, not %q", maxLimit, q.text("limit"))
	}
	return n, nil
}

// time is a time in RFC 3339, the zero time if it isn't there.
func (q *query) time(name string) (time.Time, error) {
	if q.text(name) == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, q.text(name))
	if err != nil || at.IsZero() { // which would stand for no time at all
		return time.Time{}, invalid("%s is a time such as 2026-05-04T10:11:12Z, not %q", name, q.text(name))
	}
	return at, nil
}
