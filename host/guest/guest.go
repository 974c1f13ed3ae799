// Package guest is for actors that are compiled to WebAssembly: what package host is for
// actors that are part of a program, with the same words.
//
//	package main
//
//	import "github.com/greenroomdb/greenroom/host/guest"
//
//	func init() {
//		guest.Serve(&guest.Type{
//			Actions: map[string]guest.Handler{
//				"add": guest.Action(func(c *guest.Context, n int) (total int, err error) {
//					err = guest.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
//					return total, err
//				}),
//			},
//		})
//	}
//
//	func main() {} // is not called
//
// It is built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o counter.wasm .
//
// and served by package host/wasm. On other platforms it compiles, so that tools can look
// at it, and every function of the host is ErrNoHost.
//
// # Memory
//
// A module's variables live as long as its actor is awake, at most: the host throws them
// away when it needs the memory, when a turn panics or takes too long, and when the
// commit of a turn is refused. They are a cache, which Type.Wake fills. What a turn has
// changed in them before it returned an error stays as it is.
//
// # What it is not
//
// It has no goroutines to speak of: those that a turn leaves behind go on in the next
// turn, and what they ask of the host is a part of that. Time stands still in a turn, and
// time.Sleep returns at once. There are no files and no network, and no Run and no
// workflow, which run beside turns.
package guest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// A Type is what actors of a module's type do. All fields may be left out. What is said
// of the fields of host.Type holds here: each function that gets a *Context runs in a
// turn, and what it writes lands in one commit, or not at all if it returns an error or
// panics.
type Type struct {
	// Actions are what others may call, by name. See Action.
	Actions map[string]Handler
	// Other is called for actions that are not in Actions; nil means that there are none.
	Other func(c *Context, action string, args Raw) (Raw, error)

	// Create is called once in the life of an actor. Wake is called whenever it has a new
	// memory, Sleep before it leaves memory in good order, Destroy before all that it has
	// stored is removed.
	Create, Wake, Sleep, Destroy func(c *Context) error

	// Connect is called for a new connection; an error refuses it. Disconnect is called when
	// a connection goes, in the turn that removes it; when the module has disconnected it
	// itself, after the function that did.
	Connect    func(c *Context, n *Conn) error
	Disconnect func(c *Context, n *Conn, reason string) error

	// Alarm is called for what was scheduled with a name that no action has.
	Alarm func(c *Context, e Event) error

	// Message is called for each message of the actor's queue whose name is among
	// MessageNames, or for all if that is empty. It is completed by the commit of the turn,
	// unless Message has settled it.
	Message      func(c *Context, m *Message) error
	MessageNames []string
}

// A Handler is an action as the host calls it: arguments and result are in CBOR.
type Handler func(c *Context, args Raw) (Raw, error)

// Action returns fn as a Handler: the arguments of a call are decoded into an In, and what
// it returns is encoded. Arguments that don't fit are an *Error with the code
// "bad_arguments". A struct{} takes anything, and returns undefined.
func Action[In, Out any](fn func(c *Context, in In) (Out, error)) Handler {
	return func(c *Context, args Raw) (Raw, error) {
		var in In
		if _, none := any(in).(struct{}); !none {
			if err := args.Decode(&in); err != nil {
				return nil, &Error{"bad_arguments", "The arguments are not what the action takes."}
			}
		}
		out, err := fn(c, in)
		if err != nil {
			return nil, err
		}
		if _, none := any(out).(struct{}); none {
			return nil, nil
		}
		return Encode(out)
	}
}

// Raw is a value in CBOR, as package host has it. nil is undefined.
type Raw = abi.Raw

// Encode returns v in CBOR; a Raw is returned as it is.
func Encode(v any) (Raw, error) { return abi.Encode(v) }

// serving is the Type of the module: the exports of a module are functions without a
// receiver, so there is one.
var serving struct {
	sync.Mutex
	actor *Type
}

// Serve says what the module does. It must be called once, while the program is
// initialized: in an init function of package main.
func Serve(a *Type) {
	serving.Lock()
	defer serving.Unlock()
	if serving.actor != nil {
		panic("guest: Serve was called twice")
	}
	serving.actor = a
}

func served() *Type {
	serving.Lock()
	defer serving.Unlock()
	if serving.actor == nil {
		return &Type{}
	}
	return serving.actor
}

// describe says what a does.
func (a *Type) describe() abi.Description {
	d := abi.Description{
		Actions: slices.Sorted(maps.Keys(a.Actions)), Other: a.Other != nil, Messages: a.MessageNames, Hooks: []string{},
	}
	for _, h := range []struct {
		kind string
		has  bool
	}{
		{abi.KindCreate, a.Create != nil}, {abi.KindWake, a.Wake != nil}, {abi.KindSleep, a.Sleep != nil},
		{abi.KindDestroy, a.Destroy != nil}, {abi.KindConnect, a.Connect != nil},
		{abi.KindDisconnect, a.Disconnect != nil}, {abi.KindAlarm, a.Alarm != nil}, {abi.KindMessage, a.Message != nil},
	} {
		if h.has {
			d.Hooks = append(d.Hooks, h.kind)
		}
	}
	return d
}

// handle handles an event, and returns the reply.
func (a *Type) handle(event []byte) (Raw, error) {
	var e abi.Event
	if err := abi.Unmarshal(event, &e); err != nil {
		return nil, err
	}
	c := &Context{conn: e.Conn}
	if e.Kind == abi.KindAction {
		return a.act(c, &e)
	}
	return nil, a.hook(c, &e)
}

func (a *Type) act(c *Context, e *abi.Event) (Raw, error) {
	if h := a.Actions[e.Name]; h != nil {
		return h(c, e.Args)
	}
	if a.Other == nil {
		return nil, &Error{"no_such_action", "Actors of this type have no such action."}
	}
	return a.Other(c, e.Name, e.Args)
}

// hook calls a hook, which is there, since the host calls those that describe has named.
func (a *Type) hook(c *Context, e *abi.Event) error {
	switch e.Kind {
	case abi.KindCreate:
		return a.Create(c)
	case abi.KindWake:
		return a.Wake(c)
	case abi.KindSleep:
		return a.Sleep(c)
	case abi.KindDestroy:
		return a.Destroy(c)
	case abi.KindConnect:
		return a.Connect(c, &Conn{id: e.Conn})
	case abi.KindDisconnect:
		return a.Disconnect(c, &Conn{id: e.Conn}, e.Reason)
	case abi.KindAlarm:
		return a.Alarm(c, eventOf(e.Alarm))
	case abi.KindMessage:
		return a.Message(c, messageOf(e.Message))
	}
	return fmt.Errorf("guest: an event of kind %q, which this package doesn't know", e.Kind)
}
