// Package guest is for actors that are compiled to WebAssembly: what package host is for
// actors that are part of a program, with the same words.
//
//	package main
//
//	import "github.com/greenroomdb/greenroom/host/guest"
//
//	var Add = guest.NewAction("add", func(c *guest.Context, n int) (total int, err error) {
//		err = guest.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
//		return total, err
//	})
//
//	func init() { guest.Serve(&guest.Type{Actions: []guest.AnyAction{Add}}) }
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

// Files, from the top down:
//
//	db.go conns.go queue.go action.go schedule.go kv.go guest.go context.go call.go imports_other.go
//	imports_wasip1.go

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
	// Actions are what others may call: each name is there once. See NewAction.
	Actions []AnyAction
	// Other is called for actions that are not in Actions; nil means that there are none.
	Other func(c *Context, action string, args Raw) (Raw, error)

	// Create is called once in the life of an actor. Wake is called whenever the actor gets a
	// new memory, Sleep before it leaves memory cleanly, Destroy before all that it stores is
	// removed.
	Create, Wake, Sleep, Destroy func(c *Context) error

	// Connect is called for a new connection; an error refuses it. Disconnect is called when
	// a connection goes, in the turn that removes it; when the module has disconnected it
	// itself, after the function that did.
	Connect    func(c *Context, n *Conn) error
	Disconnect func(c *Context, n *Conn, reason string) error
	// Subscribe is called when a client asks for the events of a name; an error refuses it.
	Subscribe func(c *Context, n *Conn, event string) error

	// Alarm is called for what was scheduled with a name that no action has.
	Alarm func(c *Context, e Event) error

	// Message is called for each message of the actor's queue whose name is among
	// MessageNames, or for all if that is empty. It is completed by the commit of the turn,
	// unless Message has settled it.
	Message      func(c *Context, m *Message) error
	MessageNames []string
}

// Raw is a value in CBOR, like host.Raw. nil is undefined. Inside another value it is copied as
// it is, so an action may take or return a value without knowing what it means.
type Raw []byte

// MarshalCBOR implements cbor.Marshaler of github.com/fxamacker/cbor. The bytes are r itself,
// which must not be changed as long as they are used.
func (r Raw) MarshalCBOR() ([]byte, error) { return abi.Raw(r).MarshalCBOR() }

// UnmarshalCBOR implements cbor.Unmarshaler of github.com/fxamacker/cbor. It keeps nothing of b.
func (r *Raw) UnmarshalCBOR(b []byte) error { return (*abi.Raw)(r).UnmarshalCBOR(b) }

// Decode decodes r into what v points to, which keeps nothing of r; undefined and null leave it
// as it is. An error says what of r doesn't fit, or that r is not one value in CBOR.
func (r Raw) Decode(v any) error {
	if to, ok := v.(*Raw); ok {
		v = (*abi.Raw)(to)
	}
	return abi.Raw(r).Decode(v)
}

// Encode returns v in CBOR; a Raw is returned as it is.
func Encode(v any) (Raw, error) {
	r, err := encode(v)
	return Raw(r), err
}

// encode is Encode for a value that goes to the host as a part of another one.
func encode(v any) (abi.Raw, error) {
	if r, ok := v.(Raw); ok {
		return abi.Raw(r), nil
	}
	return abi.Encode(v)
}

// serving is the Type of the module: the exports of a module are functions without a
// receiver, so there is one.
var serving struct {
	sync.Mutex
	kind *kind
}

// A kind is a Type with its actions by name.
type kind struct {
	*Type
	actions map[string]*action
}

func newKind(t *Type) *kind {
	k := &kind{t, map[string]*action{}}
	for _, declared := range t.Actions {
		a := declared.declared()
		if a.Run == nil || k.actions[a.Name] != nil {
			panic(fmt.Sprintf("guest: the action %q is there twice, or without a function", a.Name))
		}
		k.actions[a.Name] = a
	}
	return k
}

// Serve says what the module does. It must be called once, while the program is
// initialized: in an init function of package main. It panics if it is called again, and if
// an action has no function, or another one's name.
func Serve(t *Type) {
	serving.Lock()
	defer serving.Unlock()
	if serving.kind != nil {
		panic("guest: Serve was called twice")
	}
	serving.kind = newKind(t)
}

func served() *kind {
	serving.Lock()
	defer serving.Unlock()
	if serving.kind == nil {
		return newKind(&Type{})
	}
	return serving.kind
}

// describe says what k does.
func (k *kind) describe() abi.Description {
	d := abi.Description{
		Actions: slices.Sorted(maps.Keys(k.actions)), Other: k.Other != nil, Messages: k.MessageNames, Hooks: []string{},
	}
	for _, h := range []struct {
		kind string
		has  bool
	}{
		{abi.KindCreate, k.Create != nil}, {abi.KindWake, k.Wake != nil}, {abi.KindSleep, k.Sleep != nil},
		{abi.KindDestroy, k.Destroy != nil}, {abi.KindConnect, k.Connect != nil},
		{abi.KindDisconnect, k.Disconnect != nil}, {abi.KindSubscribe, k.Subscribe != nil}, {abi.KindAlarm, k.Alarm != nil}, {abi.KindMessage, k.Message != nil},
	} {
		if h.has {
			d.Hooks = append(d.Hooks, h.kind)
		}
	}
	return d
}

// handle handles an event, and returns the reply.
func (k *kind) handle(event []byte) (Raw, error) {
	var e abi.Event
	if err := abi.Unmarshal(event, &e); err != nil {
		return nil, err
	}
	c := &Context{origin: origin{e.Conn, callerOf(e.Caller)}}
	if e.Kind == abi.KindAction {
		return k.act(c, &e)
	}
	return nil, k.hook(c, &e)
}

func (k *kind) act(c *Context, e *abi.Event) (Raw, error) {
	if a := k.actions[e.Name]; a != nil {
		return a.Run(c, Raw(e.Args))
	}
	if k.Other == nil {
		return nil, &Error{Code: "no_such_action", Message: "Actors of this type have no such action."}
	}
	return k.Other(c, e.Name, Raw(e.Args))
}

// hook calls a hook, which is there, since the host calls those that describe has named.
func (k *kind) hook(c *Context, e *abi.Event) error {
	switch e.Kind {
	case abi.KindCreate:
		return k.Create(c)
	case abi.KindWake:
		return k.Wake(c)
	case abi.KindSleep:
		return k.Sleep(c)
	case abi.KindDestroy:
		return k.Destroy(c)
	case abi.KindConnect:
		return k.Connect(c, &Conn{id: e.Conn})
	case abi.KindDisconnect:
		return k.Disconnect(c, &Conn{id: e.Conn}, e.Reason)
	case abi.KindSubscribe:
		return k.Subscribe(c, &Conn{id: e.Conn}, e.Name)
	case abi.KindAlarm:
		return k.Alarm(c, eventOf(e.Alarm))
	case abi.KindMessage:
		return k.Message(c, messageOf(e.Message))
	}
	return fmt.Errorf("guest: an event of kind %q, which this package doesn't know", e.Kind)
}
