package callrow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/callrow"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

func TestGolden(t *testing.T) {
	c := callrow.Call{At: 0x0102, ID: "a b"}
	if got, want := string(c.Key()), "hc\x00\x00\x00\x00\x00\x00\x01\x02a b"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
	if got, want := string(c.ResultKey()), "hr\x00\x00\x00\x00\x00\x00\x01\x02a b"; got != want {
		t.Errorf("key of the result %q, want %q", got, want)
	}
	digest := callrow.Digest{0: 0xaa, 15: 0xbb}
	head := "\x01\x00\xaa" + strings.Repeat("\x00", 14) + "\xbb"
	long := strings.Repeat("x", 1025)
	for result, want := range map[string]string{"": "\x01\x00", "\x18\x2a": "\x01\x02\x18\x2a", long[1:]: "\x01\x80\x08" + long[1:], long: "\x00"} {
		c := callrow.New(0x0102, "a b", []byte(result))
		if got := string(c.Append(nil, digest, []byte(result))); got != head+want || c.Apart != (want == "\x00") {
			t.Errorf("%q: value %q, want %q", result, got, head+want)
		}
	}
	if got, want := string(callrow.AppendResult(nil, []byte(long))), "\x01\x00\x81\x08"+long; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	if d, want := callrow.DigestOf("add", "ann", []byte{1}), testkit.Unhex(t, "2dec5e2cc7338c1cdbbbaeec45c6b0ba"); string(d[:]) != string(want) {
		t.Errorf("digest %x, want %x", d, want)
	}
}

// TestDigest: each part of a call tells it apart, and where one part ends.
func TestDigest(t *testing.T) {
	seen := map[callrow.Digest]string{}
	for _, c := range [][3]string{{"add", "", ""}, {"ad", "d", ""}, {"", "add", ""}, {"add", "ann", ""}, {"add", "", "ann"}, {"add", "ann", "\x01"}, {"add", "ann", "\x02"}} {
		d := callrow.DigestOf(c[0], c[1], []byte(c[2]))
		if d != callrow.DigestOf(c[0], c[1], []byte(c[2])) {
			t.Errorf("%q has two digests", c)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%q has the digest of %s", c, other)
		}
		seen[d] = strings.Join(c[:], "|")
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"": false, "a": true, " ": true, "~": true, "\x7f": false, "a\n": false, "é": false, "\x00": false,
		strings.Repeat("a", callrow.MaxID): true, strings.Repeat("a", callrow.MaxID+1): false,
	} {
		if got := callrow.ValidID(id); got != want {
			t.Errorf("%q: got %t", id, got)
		}
	}
}

// TestRoundTrip: what is read is what was written.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 1024, 1025, 100_000} {
		want := []byte(strings.Repeat("x", n))
		c := callrow.New(5, "k", want)
		got, d, result, err := callrow.Parse(c.Key(), c.Append(nil, callrow.Digest{7}, want))
		testkit.Must(t, err)
		if c.Apart {
			if result != nil {
				t.Errorf("%d bytes: %d are in the row of the call, too", n, len(result))
			}
			result, err = callrow.ParseResult(callrow.AppendResult(nil, want))
			testkit.Must(t, err)
		}
		if got != c || d != (callrow.Digest{7}) || string(result) != string(want) || n == 0 && result != nil {
			t.Errorf("%d bytes: %+v is read as %+v, %x, %d bytes", n, c, got, d, len(result))
		}
	}
}

func TestCorrupt(t *testing.T) {
	c, long := callrow.New(1, "k", []byte{0xf6}), []byte(strings.Repeat("x", 1025))
	key, value := c.Key(), c.Append(nil, callrow.Digest{}, []byte{0xf6})
	for _, bad := range []string{"", "h", string(key[:10]), "ho" + string(key[2:]), "hr" + string(key[2:]), "hc\x80" + string(key[3:]), string(key) + "\x00", string(key) + strings.Repeat("k", callrow.MaxID)} {
		if c, _, _, err := callrow.Parse([]byte(bad), value); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("key %q: %+v, %v", bad, c, err)
		}
	}
	for _, bad := range []string{"", "\x01", string(value[:len(value)-1]), string(value) + "\x00", string(value[:18]) + "\x02", string(c.Append(nil, callrow.Digest{}, long))} {
		if _, _, _, err := callrow.Parse(key, []byte(bad)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("value %q: %v", bad, err)
		}
	}
	result := callrow.AppendResult(nil, long)
	for _, bad := range []string{"", "\x01\x00", string(result[:len(result)-1]), string(result) + "\x00", string(callrow.AppendResult(nil, []byte{0xf6}))} {
		if _, err := callrow.ParseResult([]byte(bad)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("result %q: %v", bad, err)
		}
	}
	value[0], result[0] = 2, 2
	_, _, _, err := callrow.Parse(key, value)
	_, resultErr := callrow.ParseResult(result)
	if !errors.Is(err, kv.ErrNewerFormat) || !errors.Is(resultErr, kv.ErrNewerFormat) {
		t.Errorf("a newer version: %v, %v", err, resultErr)
	}
}

func FuzzRow(f *testing.F) {
	long := []byte(strings.Repeat("x", 1025))
	for _, result := range [][]byte{nil, {0xf6}, long} {
		c := callrow.New(1, "k", result)
		f.Add(c.Key(), c.Append(nil, callrow.Digest{1}, result))
	}
	f.Add(callrow.Call{ID: strings.Repeat("k", callrow.MaxID)}.Key(), callrow.AppendResult(nil, long))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if c, d, result, err := callrow.Parse(key, value); err == nil &&
			(string(c.Key()) != string(key) || string(c.Append(nil, d, result)) != string(value) || !callrow.ValidID(c.ID) || c.At < 0) {
			t.Errorf("%x: %x is read as %+v", key, value, c)
		}
		if result, err := callrow.ParseResult(value); err == nil && string(callrow.AppendResult(nil, result)) != string(value) {
			t.Errorf("%x is read as %x", value, result)
		}
	})
}

// TestOrder: keys are in the order of their times.
func TestOrder(t *testing.T) {
	start, end := callrow.Range()
	last := string(start)
	for _, at := range []int64{0, 1, 255, 256, 1 << 40, 1<<63 - 1} {
		for _, id := range []string{"a", "z"} {
			key := string(callrow.Call{At: at, ID: id}.Key())
			if key <= last || key >= string(end) {
				t.Errorf("%q is not behind %q", key, last)
			}
			last = key
		}
	}
}

func TestIndex(t *testing.T) {
	var x callrow.Index
	if _, ok := x.Find("a"); ok || x.Len() != 0 || x.Next(5) != 5 || x.Next(-5) != 0 || len(x.Old(9, 1, 9)) != 0 {
		t.Error("an empty index has something")
	}
	a, b, c := callrow.Call{At: 1, ID: "a"}, callrow.Call{At: 2, ID: "b"}, callrow.Call{At: 3, ID: "a"}
	for _, call := range []callrow.Call{a, b, c} {
		x.Add(call)
	}
	for _, tc := range []struct {
		until   int64
		most, n int
		want    []callrow.Call
	}{
		{0, 9, 9, nil}, {1, 9, 9, []callrow.Call{a}}, {2, 9, 1, []callrow.Call{a}}, {2, 9, 9, []callrow.Call{a, b}}, {9, 9, 9, []callrow.Call{a, b, c}},
		{0, 4, 9, nil}, {0, 3, 9, []callrow.Call{a}}, {0, 2, 9, []callrow.Call{a, b}}, {0, 1, 2, []callrow.Call{a, b}},
	} {
		if got := x.Old(tc.until, tc.most, tc.n); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
	if got := x.Next(2); got != 3 {
		t.Errorf("the next time is %d", got)
	}
	x.Remove(a)
	x.Remove(a) // which is gone
	if got, ok := x.Find("a"); got != c || !ok || x.Len() != 2 {
		t.Errorf("a is %+v, %t; %d are left", got, ok, x.Len())
	}
	x.Remove(c)
	x.Remove(b)
	if _, ok := x.Find("a"); ok || x.Len() != 0 {
		t.Error("something is left")
	}
}
