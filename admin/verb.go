package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
)

// A Verb is something that a tool does to one actor. Its request and its answer are objects in JSON.
type Verb[In, Out any] struct {
	name string // of the last element of its path: see routes
	do   func(ctx context.Context, a *greenroom.Actor, actor string, in *In) (*Out, error)
}

// None is the answer of a verb that has nothing to say.
type None struct{}

// Do does the verb to an actor that this process has open. actor is how messages name it. The error says all that there is to say to
// people, and has the kind of what happened.
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
	if err := c.do(ctx, http.MethodPost, path, bytes.NewReader(body), out); err != nil {
		return nil, err
	}
	return out, nil
}

// maxBody bounds the body of a request, in bytes: far more than an actor takes in one transaction.
const maxBody = 128 << 20

// An endpoint is a Verb, whatever its types.
type endpoint interface {
	path() string
	serve(s *Server, w http.ResponseWriter, r *http.Request)
}

func (v *Verb[In, Out]) path() string { return "POST /v1/actors/{actor}/" + v.name }

// serve answers a request for the verb.
func (v *Verb[In, Out]) serve(s *Server, w http.ResponseWriter, r *http.Request) {
	in := new(In)
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		refuse(w, &Error{Code: "invalid", Message: "the request of " + v.name + " is not what it takes: " + err.Error()})
		return
	}
	actor := r.PathValue("actor")
	var out *Out
	err := s.audited(r, v.name, actor, func(ctx context.Context) error {
		return s.visit(ctx, actor, r.URL.Query().Get("create") == "true", func(a *greenroom.Actor) (err error) {
			out, err = v.do(ctx, a, actor, in)
			return err
		})
	})
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, out)
}

// audited runs fn, and logs that it begins, and how it ends.
func (s *Server) audited(r *http.Request, verb, actor string, fn func(ctx context.Context) error) error {
	log := s.log.With(slog.String("verb", verb), slog.String("actor", actor), slog.String("by", caller(r)))
	log.Info("admin: begin")
	err := fn(r.Context())
	if err != nil {
		log.Warn("admin: failed", slog.Any("error", err))
	} else {
		log.Info("admin: done")
	}
	return err
}

// caller names the client of a request in the log: at the socket that is a process of the user.
func caller(*http.Request) string { return "socket" }

// visit runs fn with the actor that is named, as in a store with greenroom.Options.IDs.
func (s *Server) visit(ctx context.Context, actor string, create bool, fn func(a *greenroom.Actor) error) error {
	id, err := s.store.ID(ctx, actor)
	switch {
	case errors.Is(err, actorstore.ErrName), errors.Is(err, actorstore.ErrID):
		return &Error{Code: "invalid", Message: strings.TrimPrefix(err.Error(), "actorstore: ")}
	case err != nil:
		return err
	}
	err = s.actors.Visit(ctx, id, fn)
	if !create || !errors.Is(err, actorstore.ErrUnknownActor) {
		return err
	}
	return s.create(ctx, actor, fn)
}

// create runs fn with an actor that doesn't exist, which gets its name if it has one.
func (s *Server) create(ctx context.Context, actor string, fn func(a *greenroom.Actor) error) error {
	if strings.HasPrefix(actor, "id:") {
		return &Error{Code: "invalid", Message: fmt.Sprintf("the actor %s is made by its name, not by its id", actor)}
	}
	a, err := s.door.Actor(ctx, actor, &greenroom.ActorOptions{Wait: true})
	if err != nil {
		return err
	}
	err = fn(a)
	if a.Err() == nil {
		err = errors.Join(err, a.Sync(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, a.Close())
}
