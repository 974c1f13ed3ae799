package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// What hosts of a store ask each other: a byte with the version, and a request, or an answer, in CBOR. Hosts of two versions of a program are side by side while one
// is replaced by the other, so fields are added, and what isn't there is zero.
const requestVersion = 1

// Kinds of requests.
const (
	requestCall      = "call"
	requestCreate    = "create"
	requestSend      = "send"
	requestStart     = "start"
	requestDestroy   = "destroy"
	requestLeave     = "leave"
	requestSubscribe = "subscribe"
	requestDeliver   = "deliver"
	requestGather    = "gather"
)

// A request is what is asked of an actor from outside. Which fields count its kind says.
type request struct {
	Kind     string   `cbor:"kind"`
	Actor    Address  `cbor:"actor"`
	Action   string   `cbor:"action,omitempty"`
	Args     []byte   `cbor:"args,omitempty"`
	Conn     conn.ID  `cbor:"conn,omitempty"`
	Existing bool     `cbor:"existing,omitempty"`
	Key      string   `cbor:"key,omitempty"` // IdempotencyKey of a call
	Trace    []byte   `cbor:"trace,omitempty"`
	Span     []byte   `cbor:"span,omitempty"`
	Text     string   `cbor:"text,omitempty"` // a reason, or the name of an event
	On       bool     `cbor:"on,omitempty"`
	Send     *posting `cbor:"send,omitempty"`
	Mail     *mailing `cbor:"mail,omitempty"`
	// Waiting are the names of the actors that wait for the answer in turns.
	Waiting []string `cbor:"waiting,omitempty"`
}

// A posting is a queue.Send.
type posting struct {
	Name        string        `cbor:"name"`
	Body        []byte        `cbor:"body"`
	Delay       time.Duration `cbor:"delay,omitempty"`
	Priority    int           `cbor:"priority,omitempty"`
	Debounce    string        `cbor:"debounce,omitempty"`
	DebounceMax time.Duration `cbor:"debounceMax,omitempty"`
	From        string        `cbor:"from,omitempty"`
	Key         string        `cbor:"key,omitempty"`
}

// A mailing says which letters are in an actor's outbox for another one: the receiver's host reads them there.
type mailing struct {
	From    string   `cbor:"from"`
	Nonce   []byte   `cbor:"nonce"`
	Numbers []uint64 `cbor:"numbers"`
}

// An answer is what became of a request.
type answer struct {
	Result   []byte   `cbor:"result,omitempty"`
	Failure  *failure `cbor:"failure,omitempty"`
	Replayed bool     `cbor:"replayed,omitempty"`
}

// encodeWire returns what goes from host to host.
func encodeWire(v any) ([]byte, error) {
	text, err := cbor.Marshal(v)
	return append([]byte{requestVersion}, text...), err
}

// decodeWire reads what another host has sent.
func decodeWire(text []byte, v any) error {
	if len(text) == 0 || text[0] != requestVersion {
		return fmt.Errorf("%w: it is of a version that isn't known here", errWire)
	}
	if err := cbor.Unmarshal(text[1:], v); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}

// errWire says that a host doesn't understand another one.
var errWire = errors.New("host: what another host says can't be understood")

// readAnswer reads the answer of a host. It isn't nil with an error that was told.
func readAnswer(from *actorstore.HostInfo, text []byte) (*answer, error) {
	a := &answer{}
	if err := decodeWire(text, a); err != nil {
		return nil, fmt.Errorf("%w: host %q: %w", ErrUnknownOutcome, from.Name, err)
	}
	if a.Failure != nil {
		return a, a.Failure.err(from)
	}
	return a, nil
}

// answer does what another host asks for.
func (r *request) answer(ctx context.Context, h *Host) *answer {
	a := &answer{}
	var err error
	if a.Result, err = r.do(ctx, h, a); err != nil {
		a.Failure = newFailure(err)
	}
	if handed := (*handedError)(nil); errors.As(err, &handed) {
		handed.at.leave() // its caller is at another host
	}
	return a
}

// do is answer, but for errors.
func (r *request) do(ctx context.Context, h *Host, a *answer) (Raw, error) {
	switch r.Kind {
	case requestCall:
		c := &Call{Actor: r.Actor, Action: r.Action, Args: r.Args, Conn: r.Conn, Existing: r.Existing, IdempotencyKey: r.Key, Replayed: &a.Replayed}
		copy(c.Trace[:], r.Trace)
		copy(c.Span[:], r.Span)
		return h.Do(ctx, c)
	case requestCreate:
		return nil, h.Create(ctx, r.Actor, Raw(r.Args))
	case requestSend:
		id, err := h.Send(ctx, r.Actor, r.Send.send())
		return encoded(uint64(id), err)
	case requestStart:
		return encoded(h.StartWorkflow(ctx, r.Actor, Raw(r.Args)))
	case requestDestroy:
		return nil, h.Destroy(ctx, r.Actor)
	case requestLeave:
		return nil, h.Leave(ctx, r.Actor, r.Conn, r.Text)
	case requestSubscribe:
		return nil, h.Subscribe(ctx, r.Actor, r.Conn, r.Text, r.On)
	case requestGather:
		h.away.moved(r.Actor.String())
		return nil, nil
	case requestDeliver:
		came, err := h.couriers.collect(ctx, r.Actor, r.Mail)
		result, _ := Encode(came) // an int can be encoded
		return result, err
	}
	return nil, fmt.Errorf("%w: a request of the kind %.80q", errWire, r.Kind)
}

// encoded returns a result of an answer.
func encoded(v any, err error) (Raw, error) {
	if err != nil {
		return nil, err
	}
	return Encode(v)
}

// say returns the request for a call.
func (c *Call) say() (*request, error) {
	r := &request{Kind: requestCall, Actor: c.Actor, Action: c.Action, Args: c.Args, Conn: c.Conn, Existing: c.Existing, Key: c.IdempotencyKey}
	if c.Trace != (traces.TraceID{}) {
		r.Trace, r.Span = c.Trace[:], c.Span[:]
	}
	return r, nil
}

// saySend returns the request for posting a message to an actor.
func saySend(a Address, s *queue.Send) (*request, error) {
	body, ok := s.Body.(queue.Raw)
	if !ok {
		encoded, err := Encode(s.Body)
		if err != nil {
			return nil, err
		}
		body = queue.Raw(encoded)
	} else if body == nil {
		body = queue.Raw(undefined)
	}
	to := &posting{Name: s.Name, Body: body, Delay: s.Delay, Priority: s.Priority, From: s.From, Key: s.Key}
	if s.Debounce != nil {
		to.Debounce, to.DebounceMax = s.Debounce.Key, s.Debounce.Max
	}
	return &request{Kind: requestSend, Actor: a, Send: to}, nil
}

func (s *posting) send() queue.Send {
	r := queue.Send{Name: s.Name, Body: queue.Raw(s.Body), Delay: s.Delay, Priority: s.Priority, From: s.From, Key: s.Key}
	if s.Debounce != "" {
		r.Debounce = &queue.Debounce{Key: s.Debounce, Max: s.DebounceMax}
	}
	return r
}

// sayMail returns the request for bringing letters, which are in an outbox.
func sayMail(from string, to Address, letters []*mailrow.Letter) (*request, error) {
	m := &mailing{From: from, Nonce: bytes.Clone(letters[0].Nonce[:])}
	for _, l := range letters {
		m.Numbers = append(m.Numbers, l.Number)
	}
	return &request{Kind: requestDeliver, Actor: to, Mail: m}, nil
}

// result decodes what was answered by another host into v; nil is the answer of this one.
func (a *answer) result(v any) error {
	if a == nil {
		return nil
	}
	return Raw(a.Result).Decode(v)
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

// encode returns what is told to the host that has sent a request.
func (a *answer) encode() []byte {
	text, err := encodeWire(a)
	if err != nil { // a sentence of an actor that isn't UTF-8
		text, _ = encodeWire(&answer{Failure: &failure{Code: codeInternal, Message: "The error can't be told."}})
	}
	return text
}
