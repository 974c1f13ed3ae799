package workaround

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// pages returns values and what they may become.
func pages() map[string][2][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	page := make([]byte, 4096)
	for i := range page {
		page[i] = byte(rng.Uint32())
	}
	changed := func(fn func(p []byte) []byte) [2][]byte { return [2][]byte{page, fn(bytes.Clone(page))} }
	return map[string][2][]byte{
		"same":     {page, page},
		"first":    changed(func(p []byte) []byte { p[0]++; return p }),
		"last":     changed(func(p []byte) []byte { p[4095]++; return p }),
		"two":      changed(func(p []byte) []byte { p[100]++; p[100+maxGap+1]++; return p }),
		"two near": changed(func(p []byte) []byte { p[100]++; p[101+maxGap]++; return p }),
		"far":      changed(func(p []byte) []byte { p[7]++; p[8]++; p[1000]++; p[4000]++; return p }),
		"longer":   changed(func(p []byte) []byte { return append(p, 1, 0, 0, 2, 0) }),
		"zeros":    changed(func(p []byte) []byte { return append(p, make([]byte, 4000)...) }),
		"shorter":  changed(func(p []byte) []byte { return p[:600] }),
		"nothing":  changed(func([]byte) []byte { return nil }),
		"of none":  {nil, []byte{0, 0, 1}},
		"moved":    changed(func(p []byte) []byte { return slices.Insert(p[:4000], 3900, 1, 2, 3) }),
	}
}

// TestPatch: a patch makes of its value the new one, of no other any, and is short if little
// has changed.
func TestPatch(t *testing.T) {
	for name, tt := range pages() {
		base, value := tt[0], tt[1]
		patch, ok := AppendPatch([]byte("x"), base, value, 4096)
		if !ok || patch[0] != 'x' {
			t.Fatalf("%s: no patch", name)
		}
		patch = patch[1:]
		if name != "moved" && len(patch) > 40 {
			t.Errorf("%s: a patch of %d bytes", name, len(patch))
		}
		got, rest, err := applyPatch(bytes.Clone(base), append(slices.Clone(patch), "rest"...))
		if err != nil || !bytes.Equal(got, value) || string(rest) != "rest" {
			t.Errorf("%s: got %d bytes, %q, %v", name, len(got), rest, err)
		}
		if short, ok := AppendPatch(nil, base, value, 8); ok || len(short) > 0 {
			if len(patch) > 9 {
				t.Errorf("%s: a patch of %d bytes, want at most 8", name, len(short))
			}
		}
		if name == "nothing" || name == "of none" || len(base) == 0 {
			continue
		}
		other := bytes.Clone(base)
		other[len(value)/3]++
		if _, _, err := applyPatch(other, patch); !errors.Is(err, pebble.ErrCorruption) {
			t.Errorf("%s: applied to another value: %v", name, err)
		}
	}
}

// FuzzPatch makes patches of any two values.
func FuzzPatch(f *testing.F) {
	for _, tt := range pages() {
		f.Add(tt[0], tt[1])
	}
	f.Fuzz(func(t *testing.T, base, value []byte) {
		if len(value) > MaxPatched {
			return
		}
		patch, ok := AppendPatch(nil, base, value, 1<<30)
		if !ok {
			t.Fatal("no patch")
		}
		got, rest, err := applyPatch(bytes.Clone(base), patch)
		if err != nil || !bytes.Equal(got, value) || len(rest) > 0 {
			t.Errorf("got %x, %x, %v, want %x", got, rest, err, value)
		}
	})
}

// FuzzApplyPatch reads anything as a patch.
func FuzzApplyPatch(f *testing.F) {
	for _, tt := range pages() {
		patch, _ := AppendPatch(nil, tt[0], tt[1], 1<<30)
		f.Add(tt[0], patch)
	}
	f.Fuzz(func(t *testing.T, base, operand []byte) {
		value, rest, err := applyPatch(bytes.Clone(base), operand)
		if err != nil {
			if !errors.Is(err, pebble.ErrCorruption) || value != nil {
				t.Errorf("got %d bytes, %v", len(value), err)
			}
			return
		}
		again, ok := AppendPatch(nil, base, value, 1<<30)
		if !ok || len(rest) >= len(operand) {
			t.Fatalf("%d bytes are left of %d", len(rest), len(operand))
		}
		if got, _, err := applyPatch(bytes.Clone(base), again); err != nil || !bytes.Equal(got, value) {
			t.Errorf("another patch for the same makes %x of it, %v, want %x", got, err, value)
		}
	})
}

// TestMerge: operands merge in any order in which Pebble hands them over, with the value to
// which they belong or without.
func TestMerge(t *testing.T) {
	m := Patches()
	rng := rand.New(rand.NewPCG(3, 4))
	values := [][]byte{make([]byte, 1000)}
	var operands [][]byte
	for i := range 9 {
		next := bytes.Clone(values[i])
		next[rng.IntN(len(next))]++
		patch, _ := AppendPatch(nil, values[i], next, 1<<20)
		values, operands = append(values, next), append(operands, patch)
	}
	merged := func(base bool, parts ...[]byte) ([]byte, error) {
		t.Helper()
		var first []byte
		for _, older := range []bool{true, false} {
			parts := slices.Clone(parts)
			if older {
				slices.Reverse(parts)
			}
			v, err := m.Merge(nil, parts[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts[1:] {
				add := v.MergeNewer
				if older {
					add = v.MergeOlder
				}
				if err := add(p); err != nil {
					t.Fatal(err)
				}
			}
			out, closer, err := v.Finish(base)
			if err != nil {
				return nil, err
			}
			out = bytes.Clone(out)
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
			if first != nil && !bytes.Equal(out, first) {
				t.Errorf("the two orders make %x and %x", first, out)
			}
			first = out
		}
		return first, nil
	}
	// Some are merged before the others.
	early, err := merged(false, operands[3:6]...)
	if err != nil {
		t.Fatal(err)
	}
	one, err := merged(false, operands[6])
	if err != nil || !bytes.Equal(one, operands[6]) {
		t.Fatalf("one operand becomes %x, %v", one, err)
	}
	got, err := merged(true, slices.Concat([][]byte{values[0]}, operands[:3], [][]byte{early}, operands[6:])...)
	if err != nil || !bytes.Equal(got, values[9]) {
		t.Errorf("got %x, %v", got, err)
	}
	for name, parts := range map[string][][]byte{
		"without the value": operands,
		"one alone":         operands[:1],
		"one missing":       slices.Concat([][]byte{values[0]}, operands[:3], operands[4:]),
		"cut off":           {values[0], operands[0][:len(operands[0])-1]},
	} {
		if got, err := merged(true, parts...); !pebble.IsCorruptionError(err) {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
}
