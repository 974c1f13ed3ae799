package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/archive"
)

// A Verb is something that a tool does to one actor. Its request and its answer are objects in JSON.
type Verb[In, Out any] struct {
	name string // the end of its path: see route
	what string // it does, for the document
	do   func(ctx context.Context, a *greenroom.Actor, actor string, in *In) (*Out, error)
}

// None is the answer of a verb that has nothing to say.
type None struct{}

// Do does the verb to an actor that this process has open. actor is how messages name it. The error says all that there is to say to
// people, and is of the kind of what happened.
func (v *Verb[In, Out]) Do(ctx context.Context, a *greenroom.Actor, actor string, in *In) (*Out, error) {
	return v.do(ctx, a, actor, in)
}

// Ask has the process that has the store do the verb to an actor, which is named as in a store with greenroom.Options.IDs. With create an
// actor that doesn't exist is made, and otherwise it is ErrNotFound. The error is an *Error if the process answers.
func (v *Verb[In, Out]) Ask(ctx context.Context, c *Client, actor string, create bool, in *In) (*Out, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	path := "/v1/actors/" + url.PathEscape(actor) + "/" + v.name
	if create {
		path += "?create=true"
	}
	out := new(Out)
	if err := c.do(ctx, http.MethodPost, path, "application/json", bytes.NewReader(body), out); err != nil {
		return nil, err
	}
	return out, nil
}

// A StoreVerb is something that a tool does to a store, with one actor that is named. Its request and its answer are objects in JSON.
type StoreVerb[In, Out any] struct {
	name string
	what string
	do   func(ctx context.Context, on On, actor string, in *In) (*Out, error)
}

// On is what a StoreVerb is done to.
type On struct {
	Store  *greenroom.Store
	Actors Actors // of the store; nil means itself
	// Archive opens the backups for Restore; nil means those that this process writes of the store.
	Archive func(context.Context) (*archive.Archive, error)
}

// Do does the verb to a store that this process has open. The error says all that there is to say to people, and is of the kind of what happened.
func (v *StoreVerb[In, Out]) Do(ctx context.Context, on On, actor string, in *In) (*Out, error) {
	if on.Actors == nil {
		on.Actors = on.Store
	}
	return v.do(ctx, on, actor, in)
}

// Ask has the process that has the store do the verb. The error is an *Error if the process answers.
func (v *StoreVerb[In, Out]) Ask(ctx context.Context, c *Client, actor string, in *In) (*Out, error) {
	return (&Verb[In, Out]{name: v.name}).Ask(ctx, c, actor, false, in)
}

// quiet makes a StoreVerb of what has nothing to say.
func quiet[In any](name, what string, do func(ctx context.Context, on On, actor string, in *In) error) *StoreVerb[In, None] {
	return &StoreVerb[In, None]{name, what, func(ctx context.Context, on On, actor string, in *In) (*None, error) {
		return &None{}, do(ctx, on, actor, in)
	}}
}

func (v *StoreVerb[In, Out]) route() route {
	return route{
		method: http.MethodPost, path: "/v1/actors/{actor}/" + v.name, what: v.what, in: *new(In), out: *new(Out),
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) { v.serve(s, w, r) },
	}
}

func (v *StoreVerb[In, Out]) serve(s *Server, w http.ResponseWriter, r *http.Request) {
	serve(s, w, r, v.name, func(ctx context.Context, actor string, in *In) (*Out, error) {
		return v.do(ctx, On{Store: s.store, Actors: s.actors}, actor, in)
	})
}

// maxBody bounds the body of a request, in bytes: far more than an actor takes in one transaction.
const maxBody = 128 << 20

// An endpoint is a Verb, whatever its types.
type endpoint interface {
	route() route
}

func (v *Verb[In, Out]) route() route {
	return route{
		method: http.MethodPost, path: "/v1/actors/{actor}/" + v.name, what: v.what, params: []param{createParam}, in: *new(In), out: *new(Out),
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) { v.serve(s, w, r) },
	}
}

func (v *Verb[In, Out]) serve(s *Server, w http.ResponseWriter, r *http.Request) {
	create := r.URL.Query().Get("create") == "true"
	serve(s, w, r, v.name, func(ctx context.Context, actor string, in *In) (out *Out, err error) {
		err = s.visit(ctx, actor, create, func(ctx context.Context, a *greenroom.Actor) (err error) {
			out, err = v.do(ctx, a, actor, in)
			return err
		})
		return out, err
	})
}

// serve answers a request for a verb.
func serve[In, Out any](s *Server, w http.ResponseWriter, r *http.Request, name string, do func(ctx context.Context, actor string, in *In) (*Out, error)) {
	in := new(In)
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		refuse(w, &Error{Code: "invalid", Message: "the request of " + name + " is not what it takes: " + err.Error()})
		return
	}
	actor := r.PathValue("actor")
	var out *Out
	err := s.audited(r, name, actor, func(ctx context.Context) (err error) {
		out, err = do(ctx, actor, in)
		return err
	})
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, out)
}
