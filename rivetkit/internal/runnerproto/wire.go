package runnerproto

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// Tags of messages to the engine, and their names in errors.
const (
	tagRunnerInit = iota
	tagEvents
	tagAckCommands
	tagStopping
	tagPong
	tagKVRequest
	tagFromActor
	toEngineTags
)

var toEngineNames = [toEngineTags]string{"RunnerInit", "Events", "AckCommands", "Stopping", "Pong", "KVRequest", "FromActor"}

// Tags of messages to a runner, and their names in errors.
const (
	tagEngineInit = iota
	tagCommands
	tagAckEvents
	tagKVResponse
	tagToActor
	tagPing
	toRunnerTags
)

var toRunnerNames = [toRunnerTags]string{"EngineInit", "Commands", "AckEvents", "KVResponse", "ToActor", "Ping"}

// An Optional is a value that a message has or leaves out.
type Optional[T any] struct {
	Value T
	Set   bool // false if it is left out; Value is the zero T then
}

// Some returns an Optional that has v.
func Some[T any](v T) Optional[T] { return Optional[T]{v, true} }

// A writer appends the fields of one message to b. It writes nothing that a bare.Reader would refuse: the
// first such value is an error, which stays, and nothing is written after it.
type writer struct {
	b     []byte
	start int      // where the message begins in b
	names []string // of the messages of its direction, by tag
	v     Version
	err   error
}

// fail makes w fail, if it hasn't yet, with an error that wraps ErrMalformed. The message must have its tag.
func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s at byte %d: %s", ErrMalformed, w.names[w.b[w.start]], len(w.b)-w.start, fmt.Sprintf(format, args...))
	}
}

// since makes w fail, if it hasn't yet and the version is below v, with an error that wraps ErrVersion.
func (w *writer) since(v Version, what string) {
	if w.err == nil && w.v < v {
		w.err = fmt.Errorf("%w: %s needs version %d of the protocol, this connection has %d", ErrVersion, what, v, w.v)
	}
}

// room says whether n more bytes may be written.
func (w *writer) room(n int) bool {
	if w.err == nil && n > MaxSize-(len(w.b)-w.start) {
		w.fail("message of more than %d bytes", MaxSize)
	}
	return w.err == nil
}

func (w *writer) tag(v uint8) {
	if w.room(1) {
		w.b = bare.AppendU8(w.b, v)
	}
}

func (w *writer) bool(v bool) {
	if w.room(1) {
		w.b = bare.AppendBool(w.b, v)
	}
}

func (w *writer) u16(v uint16) {
	if w.room(2) {
		w.b = bare.AppendU16(w.b, v)
	}
}

func (w *writer) u32(v uint32) {
	if w.room(4) {
		w.b = bare.AppendU32(w.b, v)
	}
}

func (w *writer) u64(v uint64) {
	if w.room(8) {
		w.b = bare.AppendU64(w.b, v)
	}
}

func (w *writer) i64(v int64) { w.u64(uint64(v)) }

func (w *writer) fixed(b []byte) {
	if w.room(len(b)) {
		w.b = bare.AppendFixed(w.b, b)
	}
}

// uint writes n if there is room for it and for the bytes behind it.
func (w *writer) uint(n, behind int) {
	var scratch [binary.MaxVarintLen64]byte
	if b := bare.AppendUint(scratch[:0], uint64(n)); w.room(len(b) + behind) {
		w.b = append(w.b, b...)
	}
}

func (w *writer) data(b []byte) {
	w.uint(len(b), len(b))
	w.fixed(b)
}

func (w *writer) str(s string) {
	if !utf8.ValidString(s) {
		w.fail("str %.40q is not valid UTF-8", s)
	}
	if w.uint(len(s), len(s)); w.err == nil {
		w.b = append(w.b, s...)
	}
}

// count writes how many elements a list or a map has.
func (w *writer) count(n int) {
	if n > MaxCount {
		w.fail("count %d, limit %d", n, MaxCount)
	}
	w.uint(n, 0)
}

func appendList[T any](w *writer, list []T, add func(T, *writer)) {
	w.count(len(list))
	for _, v := range list {
		add(v, w)
	}
}

// readList returns nil for a list without elements. A T is at most some dozen bytes, and takes at
// least one byte of the message.
func readList[T any](r *bare.Reader, read func(*bare.Reader) T) []T {
	n := r.Len(MaxCount)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		if list[i] = read(r); r.Err() != nil {
			return nil
		}
	}
	return list
}

func appendDatas(w *writer, list [][]byte) {
	w.count(len(list))
	for _, b := range list {
		w.data(b)
	}
}

func appendOptional[T any](w *writer, o Optional[T], add func(*writer, T)) {
	if w.bool(o.Set); o.Set {
		add(w, o.Value)
	}
}

func readOptional[T any](r *bare.Reader, read func(*bare.Reader) T) Optional[T] {
	if !r.Bool() {
		return Optional[T]{}
	}
	return Some(read(r))
}

// appendBody writes data that may be left out: it is if b is nil.
func appendBody(w *writer, b []byte) {
	if w.bool(b != nil); b != nil {
		w.data(b)
	}
}

// readBody returns nil if the data is left out, else not.
func readBody(r *bare.Reader) []byte {
	if !r.Bool() {
		return nil
	}
	return r.Data()
}

// repeated returns a key that occurs more than once in a map, whose pairs are list.
func repeated[T any](list []T, key func(T) string) (string, bool) {
	keys := make([]string, len(list))
	for i, v := range list {
		keys[i] = key(v)
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return keys[i], true
		}
	}
	return "", false
}

// appendMap writes list as a map, in the order of list.
func appendMap[T any](w *writer, list []T, key func(T) string, add func(T, *writer)) {
	if k, yes := repeated(list, key); yes {
		w.fail("key %.40q occurs twice", k)
	}
	appendList(w, list, add)
}

// readMap returns the pairs of a map in their order.
func readMap[T any](r *bare.Reader, key func(T) string, read func(*bare.Reader) T) []T {
	list := readList(r, read)
	if k, yes := repeated(list, key); yes {
		r.Fail("key %.40q occurs twice", k)
	}
	return list
}
