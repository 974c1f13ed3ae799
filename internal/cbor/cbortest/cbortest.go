// Package cbortest makes values of Go to be stored, of types that it makes too, and compares
// them with what is read back. Tests of everything that stores values use it.
package cbortest

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Types that programs store, and some that can't be stored.
type (
	// Level has a text for people, and is stored as a number.
	Level int
	// Word is a text whose form for people is another.
	Word string
	// OneWay has a text that can't be read.
	OneWay struct{ N int }
	// OneWayBytes has bytes that can't be read.
	OneWayBytes struct{ N int }
	// List is a list, which may hold itself.
	List struct {
		V    any
		Next *List
	}
	// Tree is a type that holds others of itself in all ways.
	Tree struct {
		Sons   []Tree
		ByName map[string]*Tree
		At     time.Time
	}
	// Money is a number with methods.
	Money struct{ big.Int }
	// Priced has a part that would be lost.
	Priced struct {
		big.Int
		Currency string
	}
	// Borrowed has its methods from a pointer.
	Borrowed struct{ *big.Int }
	// Day is a time with methods.
	Day struct{ time.Time }
	// Dated has another part than the time whose methods it has.
	Dated struct {
		time.Time
		Note string
	}
	// Guarded has a lock, and a counter.
	Guarded struct {
		sync.Mutex
		N atomic.Int64
		S string
	}
	// Base is embedded.
	Base struct {
		A int
		B string `json:",omitempty"`
	}
	base struct{ C int }
	// Derived embeds structs.
	Derived struct {
		Base
		base
		D float64 `cbor:"d"`
	}
	// Pointed embeds pointers.
	Pointed struct {
		*Base
		D int
	}
	// Hidden embeds a pointer that can't be set.
	Hidden struct {
		*base
		D int
	}
	// Secret exports nothing.
	Secret struct{ s string }
	// Wide has fields of most kinds, with tags.
	Wide struct {
		ID    int64            `json:"id"`
		Name  string           `json:"name,omitempty"`
		At    time.Time        `json:"at"`
		Seen  *time.Time       `json:"seen"`
		Any   any              `json:"any"`
		Tags  []string         `json:"tags"`
		Bytes []byte           `json:"bytes"`
		Big   *big.Int         `json:"big"`
		Map   map[string]any   `json:"map"`
		Sum   map[int32]*Level `cbor:"sum"`
		Left  int              `json:"-"`
		Err   error
	}
	// Row is an array.
	Row struct {
		_ struct{} `cbor:",toarray"`
		A int
		B *string
	}
	// Key is a key.
	Key struct {
		A int
		B string
	}
)

// MarshalText is a text for people.
func (l Level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "level %d", int(l)), nil }

// UnmarshalText reads it.
func (l *Level) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "level %d", (*int)(l))
	return err
}

// MarshalText is a text for people.
func (w Word) MarshalText() ([]byte, error) { return []byte("<" + string(w) + ">"), nil }

// UnmarshalText reads it.
func (w *Word) UnmarshalText(b []byte) error {
	if len(b) < 2 {
		return errors.New("not a word")
	}
	*w = Word(b[1 : len(b)-1])
	return nil
}

// MarshalText is a text for people.
func (o OneWay) MarshalText() ([]byte, error) { return []byte("one way"), nil }

// MarshalBinary makes bytes.
func (o OneWayBytes) MarshalBinary() ([]byte, error) { return []byte{1}, nil }

// MarshalJSON has no other way.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.s + `"`), nil }

// types are those that others are made of.
var types = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[4]byte](),
	reflect.TypeFor[any](), reflect.TypeFor[any](), reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[big.Int](),
	reflect.TypeFor[big.Rat](), reflect.TypeFor[big.Float](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[uuid.UUID](), reflect.TypeFor[sql.NullString](),
	reflect.TypeFor[atomic.Int64](), reflect.TypeFor[error](), reflect.TypeFor[fmt.Stringer](), reflect.TypeFor[chan int](), reflect.TypeFor[complex128](),
	reflect.TypeFor[Level](), reflect.TypeFor[Word](), reflect.TypeFor[OneWay](), reflect.TypeFor[OneWayBytes](), reflect.TypeFor[List](), reflect.TypeFor[Tree](),
	reflect.TypeFor[Money](), reflect.TypeFor[Priced](), reflect.TypeFor[Borrowed](), reflect.TypeFor[Day](), reflect.TypeFor[Dated](), reflect.TypeFor[Guarded](),
	reflect.TypeFor[Derived](), reflect.TypeFor[Pointed](), reflect.TypeFor[Hidden](), reflect.TypeFor[Secret](), reflect.TypeFor[Wide](), reflect.TypeFor[Row](),
	reflect.TypeFor[Key](), reflect.TypeFor[struct{}](),
}

// A Source makes types and values.
type Source struct{ r *rand.Rand }

// New returns a Source; of one seed it makes the same.
func New(seed uint64) *Source { return &Source{rand.New(rand.NewPCG(seed, 1))} }

// Next returns a pointer to a value of some type.
func (s *Source) Next() any {
	p := reflect.New(s.kind(3))
	s.fill(p.Elem(), 4)
	return p.Interface()
}

// Fill sets what p points to.
func (s *Source) Fill(p any) { s.fill(reflect.ValueOf(p).Elem(), 4) }

// kind returns a type, made of others to the depth.
func (s *Source) kind(depth int) reflect.Type {
	if depth == 0 {
		return types[s.r.IntN(len(types))]
	}
	switch s.r.IntN(9) {
	case 0:
		return reflect.PointerTo(s.kind(depth - 1))
	case 1:
		return reflect.SliceOf(s.kind(depth - 1))
	case 2:
		return reflect.ArrayOf(s.r.IntN(3), s.kind(depth-1))
	case 3:
		if key := s.kind(s.r.IntN(2)); key.Comparable() {
			return reflect.MapOf(key, s.kind(depth-1))
		}
	case 4:
		fields := make([]reflect.StructField, s.r.IntN(4))
		for i := range fields {
			name := string(rune('A' + i))
			fields[i] = reflect.StructField{Name: name, Type: s.kind(depth - 1)}
			// A pointer to nil is there when it is written, and not when it was read.
			if s.r.IntN(4) == 0 && fields[i].Type.Kind() != reflect.Pointer && fields[i].Type.Kind() != reflect.Interface {
				fields[i].Tag = reflect.StructTag(`json:"` + name + `,omitempty"`)
			}
		}
		return reflect.StructOf(fields)
	}
	return s.kind(0)
}

// rare is true now and then: most values should be such as can be stored.
func (s *Source) rare() bool { return s.r.IntN(60) == 0 }

// fill sets v, which can be set, to some value.
func (s *Source) fill(v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = s.time()
		return
	case *big.Int:
		*x = *new(big.Int).Lsh(big.NewInt(s.int()), uint(s.r.IntN(90)))
		return
	case *big.Rat:
		x.SetFrac64(s.int(), s.int()|1)
		return
	case *big.Float:
		if s.rare() {
			x.SetInt64(s.int())
		}
		return
	case *netip.Addr:
		*x = netip.AddrFrom4([4]byte{10, 0, 0, byte(s.int())})
		return
	case *atomic.Int64:
		if s.rare() {
			x.Store(1)
		}
		return
	case *Secret:
		if s.rare() {
			x.s = "x"
		}
		return
	case *error:
		if s.rare() {
			*x = errors.New("boom")
		}
		return
	}
	s.byKind(v, depth)
}

func (s *Source) byKind(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(s.r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(s.int() >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(s.int()) >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(s.float())
	case reflect.String:
		v.SetString(s.text())
	case reflect.Complex128:
		v.SetComplex(1)
	case reflect.Chan:
		if s.rare() {
			v.Set(reflect.MakeChan(v.Type(), 0))
		}
	case reflect.Interface:
		if v.NumMethod() == 0 && depth > 0 && s.r.IntN(5) > 0 {
			in := reflect.New(s.kind(s.r.IntN(2))).Elem()
			s.fill(in, depth-1)
			v.Set(in)
		}
	case reflect.Pointer:
		if depth > 0 && s.r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			s.fill(v.Elem(), depth-1)
		}
	default:
		s.parts(v, depth)
	}
}

func (s *Source) parts(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Slice:
		if depth > 0 && s.r.IntN(4) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), s.r.IntN(4), 5))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			s.fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		if depth > 0 && s.r.IntN(4) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range s.r.IntN(4) {
				key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				s.fill(key, depth-1)
				s.fill(elem, depth-1)
				if hashable(key) {
					v.SetMapIndex(key, elem)
				}
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				s.fill(v.Field(i), depth-1)
			}
		}
	}
}

// hashable reports whether v can be a key. reflect says so of an empty array of a
// type that can't, too, which isn't one in an any.
func hashable(v reflect.Value) (ok bool) {
	defer func() { ok = recover() == nil }()
	_ = map[any]bool{v.Interface(): true}
	return true
}

func (s *Source) int() int64 {
	n := int64(s.r.Uint64()) >> s.r.IntN(64)
	switch s.r.IntN(12) {
	case 0:
		return math.MaxInt64
	case 1:
		return math.MinInt64
	case 2:
		return 1<<s.r.IntN(63) - 1 + int64(s.r.IntN(3))
	}
	return n
}

func (s *Source) float() float64 {
	switch {
	case s.rare():
		return math.NaN()
	case s.rare():
		return math.Inf(1)
	}
	switch s.r.IntN(6) {
	case 0:
		return float64(s.int())
	case 1:
		return float64(float32(s.r.NormFloat64()))
	case 2:
		return float64(s.r.IntN(3))
	}
	return s.r.NormFloat64() * math.Exp2(float64(s.r.IntN(200)-100))
}

func (s *Source) text() string {
	if s.rare() {
		return "caf\xe9"
	}
	return []string{"", "a", "é😀", "a\x00b", "$", "_"}[s.r.IntN(6)]
}

func (s *Source) time() time.Time {
	zones := []*time.Location{
		time.UTC, time.Local, time.FixedZone("Kathmandu", 20700), time.FixedZone("", -3600*5-1800), time.FixedZone("Z", 0), time.FixedZone("", 3600*14),
	}
	at := time.Unix(s.r.Int64N(1<<32), s.r.Int64N(1e9)).In(zones[s.r.IntN(len(zones))])
	switch {
	case s.rare():
		return at.In(time.FixedZone("LMT", 1172))
	case s.rare():
		return at.AddDate(9000, 0, 0)
	case s.rare():
		return at.AddDate(-4000, 0, 0)
	case s.rare():
		return time.Time{}
	case s.rare():
		return time.Now()
	}
	return at
}
