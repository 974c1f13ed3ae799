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

// TellError returns an error as one host tells it to another, for ToldError there.
func TellError(err error) []byte {
	return (&answer{Failure: newFailure(err)}).encode()
}

// ToldError returns the error that another host has told: nil if it told none. errors.Is finds in it what the error is at this host, Code and Message
// are the other one's, and nothing else of it is known.
func ToldError(from *actorstore.HostInfo, text []byte) error {
	_, err := readAnswer(from, text)
	return err
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
	if in := (*actorstore.InUseError)(nil); errors.As(err, &in) {
		f.Host = &failureHost{in.Host.ID[:], in.Host.Name, in.Host.Offer.Address}
	}
	return f
}

// encode returns what is told to the host that has sent a request.
func (a *answer) encode() []byte {
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
