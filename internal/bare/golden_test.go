package bare_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A vector is one golden value: a message, the version before it (none if nil),
// and its bytes.
type vector struct {
	Name    string
	Version *uint16
	Input   json.RawMessage
	Hex     string
}

// u64 and blob are how the vectors write 64-bit integers and bytes in JSON.
type u64 uint64

func (v *u64) UnmarshalJSON(b []byte) error {
	var s struct {
		U64 *string `json:"$u64"`
	}
	if json.Unmarshal(b, &s) == nil && s.U64 != nil {
		if n, err := strconv.ParseInt(*s.U64, 10, 64); err == nil {
			*v = u64(n)
			return nil
		}
		n, err := strconv.ParseUint(*s.U64, 10, 64)
		*v = u64(n)
		return err
	}
	return json.Unmarshal(b, (*uint64)(v))
}

type blob []byte

func (v *blob) UnmarshalJSON(b []byte) error {
	var s struct {
		Hex string `json:"$hex"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	h, err := hex.DecodeString(s.Hex)
	*v = h
	return err
}

// A message is a type of the vectors, with its fields in the order of its schema.
type message interface {
	append(dst []byte) []byte
	read(r *bare.Reader)
}

type fileMeta struct{ Size u64 }

func (m *fileMeta) append(dst []byte) []byte { return bare.AppendU64(dst, uint64(m.Size)) }
func (m *fileMeta) read(r *bare.Reader)      { m.Size = u64(r.U64()) }

type queueMetadata struct {
	NextID u64 `json:"nextId"`
	Size   uint32
}

func (m *queueMetadata) append(dst []byte) []byte {
	return bare.AppendU32(bare.AppendU64(dst, uint64(m.NextID)), m.Size)
}

func (m *queueMetadata) read(r *bare.Reader) {
	m.NextID = u64(r.U64())
	m.Size = r.U32()
}

type kvMetadata struct {
	Version  string
	UpdateTs int64
}

// Version is `data` in the schema, and text in the vectors.
func (m *kvMetadata) append(dst []byte) []byte {
	return bare.AppendI64(bare.AppendData(dst, []byte(m.Version)), m.UpdateTs)
}

func (m *kvMetadata) read(r *bare.Reader) {
	m.Version = string(r.Data())
	m.UpdateTs = r.I64()
}

type queueMessage struct {
	Name         string
	Body         blob
	CreatedAt    u64
	FailureCount *uint32
	AvailableAt  *u64
	InFlight     *bool
	InFlightAt   *u64
}

func (m *queueMessage) append(dst []byte) []byte {
	dst = bare.AppendData(bare.AppendString(dst, m.Name), m.Body)
	dst = bare.AppendI64(dst, int64(m.CreatedAt))
	dst = appendOptional(dst, m.FailureCount, bare.AppendU32)
	dst = appendOptional(dst, m.AvailableAt, appendI64)
	dst = appendOptional(dst, m.InFlight, bare.AppendBool)
	return appendOptional(dst, m.InFlightAt, appendI64)
}

func (m *queueMessage) read(r *bare.Reader) {
	m.Name = r.String()
	m.Body = r.DataCopy()
	m.CreatedAt = u64(r.I64())
	m.FailureCount = readOptional(r, r.U32)
	m.AvailableAt = readOptional(r, func() u64 { return u64(r.I64()) })
	m.InFlight = readOptional(r, r.Bool)
	m.InFlightAt = readOptional(r, func() u64 { return u64(r.I64()) })
}

type actor struct {
	Input           *blob
	HasInitialized  bool
	State           blob
	ScheduledEvents []event
}

type event struct {
	EventID   string `json:"eventId"`
	Timestamp u64
	Action    string
	Args      *blob
}

func (m *actor) append(dst []byte) []byte {
	dst = bare.AppendBool(appendOptional(dst, m.Input, appendBlob), m.HasInitialized)
	dst = bare.AppendUint(bare.AppendData(dst, m.State), uint64(len(m.ScheduledEvents)))
	for _, e := range m.ScheduledEvents {
		dst = bare.AppendI64(bare.AppendString(dst, e.EventID), int64(e.Timestamp))
		dst = appendOptional(bare.AppendString(dst, e.Action), e.Args, appendBlob)
	}
	return dst
}

func (m *actor) read(r *bare.Reader) {
	readBlob := func() blob { return r.DataCopy() }
	m.Input = readOptional(r, readBlob)
	m.HasInitialized = r.Bool()
	m.State = r.DataCopy()
	m.ScheduledEvents = make([]event, r.Len(1000))
	for i := range m.ScheduledEvents {
		e := &m.ScheduledEvents[i]
		e.EventID = r.String()
		e.Timestamp = u64(r.I64())
		e.Action = r.String()
		e.Args = readOptional(r, readBlob)
	}
}

func appendI64(dst []byte, v u64) []byte   { return bare.AppendI64(dst, int64(v)) }
func appendBlob(dst []byte, v blob) []byte { return bare.AppendData(dst, v) }

func appendOptional[T any](dst []byte, v *T, appendValue func([]byte, T) []byte) []byte {
	dst = bare.AppendBool(dst, v != nil)
	if v != nil {
		dst = appendValue(dst, *v)
	}
	return dst
}

func readOptional[T any](r *bare.Reader, read func() T) *T {
	if !r.Bool() {
		return nil
	}
	v := read()
	return &v
}

func TestGolden(t *testing.T) {
	for file, newMessage := range map[string]func() message{
		"filemeta":       func() message { return new(fileMeta) },
		"queue-metadata": func() message { return new(queueMetadata) },
		"kvmetadata":     func() message { return new(kvMetadata) },
		"queue-message":  func() message { return new(queueMessage) },
		"actor-persist":  func() message { return new(actor) },
	} {
		for _, v := range readVectors(t, file) {
			t.Run(file+"/"+v.Name, func(t *testing.T) { testGolden(t, v, newMessage) })
		}
	}
}

func testGolden(t *testing.T, v vector, newMessage func() message) {
	want, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	in := newMessage()
	if err := json.Unmarshal(v.Input, in); err != nil {
		t.Fatal(err)
	}
	var got []byte
	if v.Version != nil {
		got = bare.AppendVersion(got, *v.Version)
	}
	if got = in.append(got); !bytes.Equal(got, want) {
		t.Errorf("encoded %x, want %x", got, want)
	}

	body := want
	if v.Version != nil {
		var version uint16
		if version, body, err = bare.Version(want); err != nil || version != *v.Version {
			t.Fatalf("Version = %d, %v, want %d", version, err, *v.Version)
		}
	}
	out, r := newMessage(), bare.NewReader(body)
	out.read(r)
	if err := r.Done(); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if got := out.append(nil); !bytes.Equal(got, body) {
		t.Errorf("decoded and encoded %x, want %x", got, body)
	}
	testDamaged(t, body, newMessage)
}

// testDamaged cuts body short everywhere and adds a byte: all must be noticed.
func testDamaged(t *testing.T, body []byte, newMessage func() message) {
	for n := range body {
		r := bare.NewReader(body[:n])
		newMessage().read(r)
		if err := r.Done(); err == nil {
			t.Errorf("no error for the first %d of %d bytes", n, len(body))
		}
	}
	r := bare.NewReader(append(bytes.Clone(body), 0))
	newMessage().read(r)
	if err := r.Done(); err == nil {
		t.Error("no error for a byte too many")
	}
}

func readVectors(t *testing.T, file string) []vector {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(b, &vs); err != nil {
		t.Fatal(err)
	}
	if len(vs) == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	return vs
}
