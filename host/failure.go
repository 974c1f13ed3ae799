package host

import (
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A failure is an error as one host tells it to another.
type failure struct {
	Code    string `cbor:"code"`
	Message string `cbor:"message"`
	// Own says that an actor's code returned it: an Error.
	Own bool `cbor:"own,omitempty"`
	// Ran says that the actor's code returned it, and nothing is to be tried elsewhere.
	Ran bool `cbor:"ran,omitempty"`
	// Host has the actor, if the error is about that.
	Host *failureHost `cbor:"host,omitempty"`
	// Schema is the version of the actor's database, which the host doesn't know, and Known the last one that it does.
	Schema uint64 `cbor:"schema,omitempty"`
	Known  uint64 `cbor:"known,omitempty"`
}

// A failureHost is a host by which an actor is in use.
type failureHost struct {
	ID      []byte `cbor:"id"`
	Name    string `cbor:"name"`
	Address string `cbor:"address,omitempty"` // for requests
}

// newFailure returns an error as it is told, nil for nil.
func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{}
	f.Code, f.Message = describe(err)
	own := (*Error)(nil)
	f.Own = !errors.Is(err, ErrUnknownOutcome) && errors.As(err, &own) && own.Code == f.Code
	f.Ran = errors.As(err, new(*ranError))
	if in := (*actorstore.InUseError)(nil); errors.As(err, &in) {
		f.Host = &failureHost{in.Host.ID[:], in.Host.Name, in.Host.Offer.Address}
	}
	if newer := (*actorstore.SchemaError)(nil); errors.As(err, &newer) {
		f.Schema, f.Known = newer.Found, newer.Known
	}
	return f
}

// err returns the error that a host has told.
func (f *failure) err(from *actorstore.HostInfo) error {
	e := &remoteError{code: f.Code, message: f.Message, from: from.Name}
	if f.Own {
		e.is = append(e.is, &Error{Code: f.Code, Message: f.Message})
		return e
	}
	for i := range faults {
		if faults[i].code == f.Code {
			e.is = append(e.is, faults[i].err)
			break
		}
	}
	if f.Host != nil && len(f.Host.ID) == len(actorstore.HostID{}) {
		in := &actorstore.InUseError{Host: actorstore.HostInfo{Name: f.Host.Name, Offer: actorstore.Offer{Address: f.Host.Address}}}
		copy(in.Host.ID[:], f.Host.ID)
		e.is = append(e.is, in)
	}
	if f.Schema > 0 {
		e.is = append(e.is, &actorstore.SchemaError{Found: f.Schema, Known: f.Known})
	}
	if f.Ran {
		return &ranError{e}
	}
	return e
}
