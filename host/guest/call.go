package guest

import (
	"errors"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// ErrNoHost: the program doesn't run in a host, but by itself.
var ErrNoHost = errors.New("guest: there is no host")

// An Error is an error with a code, a word for programs such as "out_of_stock", and a
// message, a sentence for people. Those of the host are of this type: their codes are
// those of host.Code, and "sql", "bad_argument", "too_large" and a few more. An action
// that returns one has its caller told; of any other error only the log is told. Errors of
// one code are the same to errors.Is. An Error doesn't change, and several goroutines may use it.
type Error struct {
	Code    string `cbor:"code"`    // a word; the caller gets at most 64 bytes of it
	Message string `cbor:"message"` // a sentence, which may be empty
	// Permanent says that another attempt doesn't help: the message whose handler returns it, or that is given back with it, becomes a
	// dead letter at once. Errors of the host don't say it.
	Permanent bool `cbor:"permanent,omitempty"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	o, ok := target.(*Error)
	return ok && o.Code == e.Code
}

// A function is one of the host's that take a value and give one: it returns the length of
// the result, or with a minus of a fault.
type function func(arg []byte) int32

// call calls a function with v, which may be nil for nothing, and decodes its result into
// what result points to, which may be nil, too.
func call(f function, v, result any) error {
	var arg []byte
	if v != nil {
		var err error
		if arg, err = abi.Marshal(v); err != nil {
			return err
		}
	}
	return callRaw(f, arg, result)
}

// callRaw is call for an argument that is encoded.
func callRaw(f function, arg []byte, result any) error {
	b, err := exchange(f, arg)
	if err != nil || result == nil || len(b) == 0 {
		return err
	}
	if r, ok := result.(*Raw); ok {
		*r = b
		return nil
	}
	return abi.Unmarshal(b, result)
}

// exchange calls a function and fetches what it gives.
func exchange(f function, arg []byte) ([]byte, error) {
	n := f(arg)
	if n == noHost {
		return nil, ErrNoHost
	}
	if n >= 0 {
		return fetch(n)
	}
	b, err := fetch(-n)
	if err != nil {
		return nil, err
	}
	var fault abi.Fault
	if err := abi.Unmarshal(b, &fault); err != nil {
		return nil, err
	}
	return nil, (*Error)(&fault)
}

// fetch takes what the host has for the module.
func fetch(n int32) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, n)
	if take(b) != n {
		return nil, errors.New("guest: the host has taken back what it gave")
	}
	return b, nil
}

// describeSelf is the export greenroom_describe.
func describeSelf() {
	if err := call(reply, served().describe(), nil); err != nil {
		panic(err)
	}
}

// handleTurn is the export greenroom_turn.
func handleTurn(size int32) {
	event, err := fetch(size)
	if err == nil {
		var r Raw
		if r, err = served().handle(event); err == nil && len(r) > 0 {
			err = callRaw(reply, r, nil)
		}
	}
	if err == nil {
		return
	}
	var fault *Error
	if !errors.As(err, &fault) {
		fault = &Error{Message: err.Error()}
	}
	if err := call(fail, (*abi.Fault)(fault), nil); err != nil {
		panic(err) // a trap fails the turn as well
	}
}

// noHost is what functions return without a host: no fault has this length.
const noHost = -1 << 31
