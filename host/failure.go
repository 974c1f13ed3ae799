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
	// Host has the actor, if the error is about that.
	Host *failureHost `cbor:"host,omitempty"`
}

// A failureHost is a host by which an actor is in use.
type failureHost struct {
	ID      []byte `cbor:"id"`
	Name    string `cbor:"name"`
	Address string `cbor:"address,omitempty"` // for requests
}

// tell returns what is told to the host that has sent a request.
func tell(result Raw, err error) []byte {
	a := &answer{Result: result}
	if err != nil {
		f := &failure{}
		f.Code, f.Message = describe(err)
		own := (*Error)(nil)
		f.Own = !errors.Is(err, ErrUnknownOutcome) && errors.As(err, &own) && own.Code == f.Code
		if in := (*actorstore.InUseError)(nil); errors.As(err, &in) {
			f.Host = &failureHost{in.Host.ID[:], in.Host.Name, in.Host.Offer.Address}
		}
		a.Failure = f
	}
	text, err := encodeWire(a)
	if err != nil { // a sentence of an actor that isn't UTF-8
		text, _ = encodeWire(&answer{Failure: &failure{Code: codeInternal, Message: "The error can't be told."}})
	}
	return text
}

// err returns the error that a host has told.
func (f *failure) err(from *actorstore.HostInfo) error {
	e := &remoteError{failure: f, from: from.Name}
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
	return e
}

// A remoteError is what another host has answered.
type remoteError struct {
	*failure
	from string // its name
	is   []error
}

// Error names the host.
func (e *remoteError) Error() string { return "host " + e.from + ": " + e.Message }

// Unwrap returns what the error would be at this host.
func (e *remoteError) Unwrap() []error { return e.is }
