package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

type everything struct {
	Text   string            `cbor:"text" json:"text"`
	Number int64             `json:"number"`
	Float  float64           `json:"float"`
	Bytes  []byte            `json:"bytes"`
	List   []string          `json:"list"`
	Map    map[string]uint32 `json:"map"`
	Ptr    *everything       `json:"ptr,omitempty"`
	At     time.Time         `json:"at"`
}

func codecs(t testing.TB) map[string]Codec {
	key := []byte("0123456789abcdef")
	enc, err := Encrypted(CBOR(), key)
	must(t, err)
	all, err := Encrypted(Compressed(JSON()), append(key, key...))
	must(t, err)
	return map[string]Codec{"cbor": CBOR(), "json": JSON(), "compressed": Compressed(CBOR()), "encrypted": enc, "all": all}
}

// TestCodecs: what goes in comes out, in one value of CBOR, and damage is an error.
func TestCodecs(t *testing.T) {
	v := everything{"grün", 1 << 40, 0.5, []byte{0, 1}, []string{"a", strings.Repeat("b", 5000)}, map[string]uint32{"x": 1},
		&everything{Text: "in", List: []string{}, Bytes: []byte{}, Map: map[string]uint32{}, At: time.UnixMilli(0).UTC()}, time.UnixMilli(1e12).UTC()}
	for name, c := range codecs(t) {
		t.Run(name, func(t *testing.T) {
			data, err := c.Encode(v)
			must(t, err)
			must(t, cbor.Wellformed(data))
			var got everything
			must(t, c.Decode(data, &got))
			got.At, got.Ptr.At = got.At.UTC(), got.Ptr.At.UTC()
			if !reflect.DeepEqual(got, v) {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(name, "compr") && len(data) > 1000 {
				t.Errorf("%d bytes", len(data))
			}
			if strings.Contains(name, "encr") && bytes.Contains(data, []byte("grün")) {
				t.Error("the text can be read")
			}
			if strings.Contains(name, "encr") || name == "all" {
				again, err := c.Encode(v)
				must(t, err)
				if bytes.Equal(again, data) {
					t.Error("the same value is the same bytes twice")
				}
				for i := range data {
					data[i] ^= 1
					if err := c.Decode(data, &got); err == nil {
						t.Errorf("a change of byte %d is not noticed", i)
					}
					data[i] ^= 1
				}
			}
			if err := c.Decode(data[:len(data)-1], &got); err == nil {
				t.Error("a cut value is read")
			}
			if _, err := c.Encode(func() {}); err == nil {
				t.Error("a function is encoded")
			}
		})
	}
	if _, err := Encrypted(CBOR(), []byte("short")); err == nil {
		t.Error("a bad key")
	}
	data, err := Compressed(CBOR()).Encode("x")
	must(t, err)
	if len(data) > 8 {
		t.Errorf("a short text takes %d bytes", len(data))
	}
}

// TestCodecsRun: a workflow goes on with each of them.
func TestCodecsRun(t *testing.T) {
	for name, c := range codecs(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigWith(t, Options{Codec: c})
				fn := func(c *Context, in map[string]int) (string, error) {
					n, err := Step(c, "s", work(r, "s", big.NewInt(int64(in["n"]))))
					if err != nil {
						return "", err
					}
					sum, err := Loop(c, "l", 1, func(c *Context, i *int) (int, bool, error) {
						c.Sleep("s", time.Hour)
						*i *= 2
						return *i, *i > 3, nil
					})
					return fmt.Sprint(n.String(), sum, c.UUID("id") != "", c.Now("now").IsZero()), err
				}
				w := begin(r, fn, map[string]int{"n": 7})
				status(r, w, Sleeping)
				w = again(r, fn)
				output(r, w, "74 true false")
				r.same(w.Workflow)
			})
		})
	}
}

// FuzzCodecs: no bytes make a codec panic.
func FuzzCodecs(f *testing.F) {
	all := codecs(f)
	for _, c := range all {
		data, err := c.Encode(everything{Text: "x", List: []string{"y"}})
		must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, c := range all {
			var v any
			if err := c.Decode(data, &v); err != nil {
				continue
			}
			if _, err := c.Encode(v); err != nil && !errors.Is(err, cbor.ErrUnsupported) && !strings.Contains(err.Error(), "json") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	errA, errB := errors.New("a"), errors.New("b")
	fs, err := newFailures(map[string]error{"a": errA, "b": errB})
	must(t, err)
	for _, c := range []struct {
		err        error
		text, code string
		is         error
	}{
		{errors.New("plain"), "plain", "", nil},
		{fmt.Errorf("x: %w", errA), "[a] x: a", "a", errA},
		{errors.Join(errB, errA), "[a] b\na", "a", errA},
		{errors.New("[a] not really"), "[] [a] not really", "", nil},
		{errors.New("[] [x"), "[] [] [x", "", nil},
		{fmt.Errorf("%w: %w", ErrStepTimeout, errB), "[b] workflow: step timed out: b", "b", errB},
		{ErrStepTimeout, "[timeout] workflow: step timed out", "timeout", ErrStepTimeout},
		{&StepError{"p", 3, &Failure{Code: "gone", Message: "m"}}, "[gone] workflow: step p, attempt 3: m", "gone", nil},
		{&panicError{errA, nil}, "[a] panic: a", "a", errA},
		{&panicError{5, nil}, "[panic] panic: 5", "panic", ErrPanic},
		{errors.New("bad \xff text"), "bad \ufffd text", "", nil},
	} {
		f := fs.of(c.err)
		if f.text() != c.text {
			t.Errorf("%v: text %q, want %q", c.err, f.text(), c.text)
		}
		back := fs.parse(f.text())
		if back.Code != c.code || c.is != nil && !errors.Is(back, c.is) || c.is == nil && back.Unwrap() != nil {
			t.Errorf("%v: back is %+v", c.err, back)
		}
		if !strings.Contains(c.text, "\ufffd") && back.Message != f.Message {
			t.Errorf("%v: message %q", c.err, back.Message)
		}
	}
	if got := len((&Failure{Message: strings.Repeat("ü", 10_000)}).text()); got > maxErrorText+3 {
		t.Errorf("%d bytes", got)
	}
	for _, bad := range []map[string]error{{"": errA}, {"a]": errA}, {"a": nil}, {"timeout": errA}} {
		_, err := newFailures(bad)
		wantErr(t, fmt.Sprint(bad), err, ErrOptions)
	}
}

// FuzzFailures: what an error's text says about its code comes back.
func FuzzFailures(f *testing.F) {
	f.Add("", "plain")
	f.Add("timeout", "[x] y")
	f.Fuzz(func(t *testing.T, code, message string) {
		if strings.ContainsAny(code, "[]") || len(code)+len(message) > 4000 {
			return
		}
		in := &Failure{Code: strings.ToValidUTF8(code, ""), Message: strings.ToValidUTF8(message, "")}
		if got := (failures{}).parse(in.text()); got.Code != in.Code || got.Message != in.Message {
			t.Errorf("%+v came back as %+v", in, got)
		}
	})
}

// TestJSONInterface: JSON of what an interface with methods holds can't be read back, and is refused.
func TestJSONInterface(t *testing.T) {
	var none error
	some := errors.New("x")
	b, err := JSON().Encode(&none)
	if err == nil {
		err = JSON().Decode(b, &none)
	}
	if none != nil || err != nil {
		t.Errorf("nil: %v, %v", none, err)
	}
	if b, err := JSON().Encode(&some); err == nil {
		t.Errorf("an error: %q", b)
	}
}

// secret has methods for JSON, one of which is missing.
type secret struct{ s string }

func (s secret) MarshalJSON() ([]byte, error) { return json.Marshal("secret " + s.s) }

type hidden struct{ N int }

// TestJSONDeeper: what is refused by itself is refused within other values, too.
func TestJSONDeeper(t *testing.T) {
	for what, v := range map[string]any{
		"an error":               struct{ Err error }{errors.New("x")},
		"a method of two":        []secret{{"x"}},
		"an embedded pointer":    struct{ *hidden }{&hidden{1}},
		"a key without a method": map[keyed]int{{1}: 1},
		"an error of an any":     struct{ A map[string]fmt.Stringer }{map[string]fmt.Stringer{"a": big.NewInt(1)}},
	} {
		if b, err := JSON().Encode(v); err == nil {
			t.Errorf("%s: %q", what, b)
		}
	}
	if b, err := JSON().Encode(struct{ Err error }{}); err != nil {
		t.Errorf("no error is %q, %v", b, err)
	}
}

// keyed has a text that can't be read.
type keyed struct{ n int }

func (k keyed) MarshalText() ([]byte, error) { return fmt.Append(nil, k.n), nil }

// TestCompressedLimit: a value that is refused when it is read is refused when it is written.
func TestCompressedLimit(t *testing.T) {
	if b, err := Compressed(JSON()).Encode(strings.Repeat("x", maxInflated)); err == nil {
		t.Errorf("more than can be read is written, in %d bytes", len(b))
	}
}
