package conn

import (
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// The versions of a stored record: what is written, and the oldest that is read. Their
// bytes are the same but for the version itself.
const (
	recordVersion = 4
	oldestVersion = 3
)

// undefined is JavaScript's undefined in CBOR: the state of a connection that was given none.
var undefined = []byte{0xf7}

// A Header is one of the headers of the request by which a connection was made.
type Header struct {
	Name, Value string
}

// A Record is a connection as it is stored: two bytes of version, little-endian, and a
// BARE message (https://baremessages.org) of these fields in this order, where ids are
// data[4], Parameters and State are data, Subscriptions a list of a struct of one string,
// and Headers a map.
type Record struct {
	ID ID
	// Parameters is what the client gave when it connected, State what the actor keeps
	// about it: each one value in CBOR.
	Parameters, State []byte
	Subscriptions     []string // names of events, in the order in which they were subscribed to
	Gateway           GatewayID
	Request           RequestID
	// Server and Client are the indices of the last message that came in, and of the last
	// one that went out. A Set keeps what is stored of them; in new records they are 0.
	Server, Client Index
	Path           string   // of the request
	Headers        []Header // of the request, no two of one name
}

// Append appends the stored form of r to dst. It allocates nothing when dst has room for
// Size bytes. What r holds must have passed Validate: else the bytes can't be read again.
func (r *Record) Append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, recordVersion)
	dst = bare.AppendString(dst, string(r.ID))
	dst = bare.AppendData(dst, r.Parameters)
	dst = bare.AppendData(dst, r.State)
	dst = bare.AppendUint(dst, uint64(len(r.Subscriptions)))
	for _, event := range r.Subscriptions {
		dst = bare.AppendString(dst, event)
	}
	dst = bare.AppendFixed(dst, r.Gateway[:])
	dst = bare.AppendFixed(dst, r.Request[:])
	dst = bare.AppendU16(dst, uint16(r.Server))
	dst = bare.AppendU16(dst, uint16(r.Client))
	dst = bare.AppendString(dst, r.Path)
	dst = bare.AppendUint(dst, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = bare.AppendString(bare.AppendString(dst, h.Name), h.Value)
	}
	return dst
}

// Size returns how many bytes Append appends.
func (r *Record) Size() int {
	n := bare.VersionSize + len(r.Gateway) + len(r.Request) + 2 + 2 // the indices
	n += sized(len(r.ID)) + sized(len(r.Parameters)) + sized(len(r.State)) + sized(len(r.Path))
	n += uintSize(len(r.Subscriptions)) + uintSize(len(r.Headers))
	for _, event := range r.Subscriptions {
		n += sized(len(event))
	}
	for _, h := range r.Headers {
		n += sized(len(h.Name)) + sized(len(h.Value))
	}
	return n
}

// sized returns the bytes of a length n and what it is the length of.
func sized(n int) int { return uintSize(n) + n }

// uintSize returns the bytes of the uint n: 7 bits in each.
func uintSize(n int) int { return max(1, (bits.Len(uint(n))+6)/7) }

// Validate returns ErrInfo if r has texts that BARE doesn't allow, or two headers of one
// name, and ErrValue if its parameters or its state are not one value in CBOR.
func (r *Record) Validate() error {
	texts := []struct{ what, text string }{{"id", string(r.ID)}, {"path", r.Path}}
	for _, event := range r.Subscriptions {
		texts = append(texts, struct{ what, text string }{"event", event})
	}
	names := make(map[string]bool, len(r.Headers))
	for _, h := range r.Headers {
		if names[h.Name] {
			return fmt.Errorf("%w: two headers %.80q", ErrInfo, h.Name)
		}
		names[h.Name] = true
		texts = append(texts, struct{ what, text string }{"header", h.Name}, struct{ what, text string }{"header", h.Value})
	}
	for _, t := range texts {
		if !utf8.ValidString(t.text) {
			return fmt.Errorf("%w: the %s %.80q is not UTF-8", ErrInfo, t.what, t.text)
		}
	}
	if err := cbor.Valid(r.Parameters); err != nil {
		return fmt.Errorf("%w: parameters: %w", ErrValue, err)
	}
	if err := cbor.Valid(r.State); err != nil {
		return fmt.Errorf("%w: state: %w", ErrValue, err)
	}
	return nil
}

// ParseRecord decodes what Append wrote, of version 3 too. It keeps nothing of b. Whether
// Parameters and State are CBOR is for their readers to find out.
//
// Errors: actorstore.ErrNewerFormat for a later version, actorstore.ErrCorrupt for anything else.
func ParseRecord(b []byte) (*Record, error) {
	version, body, err := bare.Version(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("conn: record: %w: %w", err, actorstore.ErrCorrupt)
	case version > recordVersion:
		return nil, fmt.Errorf("conn: %w", &actorstore.FormatError{What: "record", Found: uint64(version), Known: recordVersion})
	case version < oldestVersion:
		return nil, fmt.Errorf("conn: record: there is no version %d: %w", version, actorstore.ErrCorrupt)
	}
	rd := bare.NewReader(body)
	r := &Record{ID: ID(rd.String()), Parameters: rd.DataCopy(), State: rd.DataCopy()}
	if n := rd.Len(math.MaxInt); n > 0 {
		r.Subscriptions = make([]string, n)
	}
	for i := range r.Subscriptions {
		r.Subscriptions[i] = rd.String()
	}
	copy(r.Gateway[:], rd.Fixed(len(r.Gateway)))
	copy(r.Request[:], rd.Fixed(len(r.Request)))
	r.Server, r.Client = Index(rd.U16()), Index(rd.U16())
	r.Path = rd.String()
	r.Headers = readHeaders(rd)
	if err := rd.Done(); err != nil {
		return nil, fmt.Errorf("conn: record: %w: %w", err, actorstore.ErrCorrupt)
	}
	return r, nil
}

// readHeaders reads a map, in which no key may occur twice.
func readHeaders(rd *bare.Reader) []Header {
	n := rd.Len(math.MaxInt)
	if n == 0 {
		return nil
	}
	headers := make([]Header, n)
	names := make(map[string]bool, n)
	for i := range headers {
		h := Header{rd.String(), rd.String()}
		if rd.Err() == nil && names[h.Name] {
			rd.Fail("header %q occurs twice", h.Name)
		}
		headers[i], names[h.Name] = h, true
	}
	return headers
}
