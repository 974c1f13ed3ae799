package workaround

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// A patch is the difference between a value and the one that it replaces, which a commit
// writes in its place, as an operand of Pebble's merge operator:
//
//	uvarint   length of what follows, in bytes
//	4 bytes   CRC-32C of the new value, little-endian
//	uvarint   length of the new value
//	runs      uvarint bytes that stay, uvarint n, n bytes: until the patch ends
//
// Behind the last run everything stays. A new value that is longer than the old one has
// zeros there, unless a run says otherwise; of one that is shorter the rest is gone.
//
// Several patches of one key, the oldest first, may stand one behind the other as one
// operand: a compaction that doesn't see the value to which they belong leaves that. The
// checksum tells that a patch has met another value than its own.
const (
	// MinPatched is the shortest value that may be patched. What is shorter is written as
	// soon as it is compared.
	MinPatched = 512
	// MaxPatches is how many patches may follow each other before a value is written whole.
	MaxPatches = 16
	// MaxPatched is the longest value that may be patched.
	MaxPatched = 64 << 10
	// maxGap is how many bytes that are the same may be in a run: two runs cost as much.
	maxGap = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendPatch appends the patch that makes value of base. It reports false, and appends
// nothing, if that would be longer than most bytes.
func AppendPatch(dst, base, value []byte, most int) ([]byte, bool) {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(value, castagnoli))
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	for kept := 0; ; {
		from := kept + common(at(base, kept), value[kept:])
		if from == len(value) {
			break
		}
		to := differing(base, value, from)
		dst = binary.AppendUvarint(dst, uint64(from-kept))
		dst = binary.AppendUvarint(dst, uint64(to-from))
		if len(dst)-start+to-from > most {
			return dst[:start], false
		}
		dst = append(dst, value[from:to]...)
		kept = to
	}
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(dst)-start))
	return slices.Insert(dst, start, head[:n]...), true
}

// at returns what of a value is behind its first n bytes, nothing if it is shorter.
func at(value []byte, n int) []byte { return value[min(n, len(value)):] }

// common returns how many bytes of b are the same as in a, which goes on with zeros.
func common(a, b []byte) (n int) {
	for len(a)-n >= 256 && len(b)-n >= 256 && string(a[n:n+256]) == string(b[n:n+256]) {
		n += 256
	}
	for len(a)-n >= 8 && len(b)-n >= 8 && binary.LittleEndian.Uint64(a[n:]) == binary.LittleEndian.Uint64(b[n:]) {
		n += 8
	}
	for n < len(b) && (n < len(a) && a[n] == b[n] || n >= len(a) && b[n] == 0) {
		n++
	}
	return n
}

// differing returns where a run ends that begins at from: before bytes that stay, more than a
// run may have in it.
func differing(base, value []byte, from int) int {
	to := from + 1
	for i := to; i < len(value) && i-to <= maxGap; i++ {
		if i >= len(base) && value[i] != 0 || i < len(base) && base[i] != value[i] {
			to = i + 1
		}
	}
	return to
}

// applyPatch makes of base, whose memory is the result's if that has room, the value that the
// patch says. It returns the rest of an operand.
func applyPatch(base, operand []byte) (value, rest []byte, err error) {
	p, rest, err := cutPatch(operand)
	if err != nil {
		return nil, nil, err
	}
	if len(p) < 4 {
		return nil, nil, errPatch("it has no checksum")
	}
	sum, p := binary.LittleEndian.Uint32(p), p[4:]
	size, k := binary.Uvarint(p)
	if k <= 0 || size > MaxPatched {
		return nil, nil, errPatch("it doesn't say how long the value is")
	}
	p = p[k:]
	value = slices.Grow(base, max(int(size)-len(base), 0))[:size]
	clear(at(value, len(base)))
	for off := uint64(0); len(p) > 0; {
		stay, k := binary.Uvarint(p)
		if k <= 0 || stay > size-off {
			return nil, nil, errPatch("a run is not in the value")
		}
		off, p = off+stay, p[k:]
		n, k := binary.Uvarint(p)
		if k <= 0 || n > size-off || n > uint64(len(p)-k) {
			return nil, nil, errPatch("a run is not in the value")
		}
		off, p = off+uint64(copy(value[off:], p[k:k+int(n)])), p[k+int(n):]
	}
	if crc32.Checksum(value, castagnoli) != sum {
		return nil, nil, errPatch("it belongs to another value")
	}
	return value, rest, nil
}

// Repatch applies the patches of an operand to a value, which it may overwrite, for a store whose tables are read without the list that
// says which of them count: the value may have some of the patches already. doubt is why the value isn't known to
// be the newest of those that were patched before, nil if it is. A patch that belongs to another value changes nothing, and is the new doubt; it is over with
// a patch that belongs to the value, or made it.
func Repatch(value, operand []byte, doubt error) ([]byte, error) {
	for len(operand) > 0 {
		patch, rest, err := cutPatch(operand)
		if err != nil {
			return value, err
		}
		next, _, err := applyPatch(slices.Clone(value), operand)
		switch {
		case err == nil:
			value, doubt = next, nil
		case made(value, patch):
			doubt = nil
		default:
			doubt = err
		}
		operand = rest
	}
	return value, doubt
}

// made says whether a patch made the value.
func made(value, patch []byte) bool {
	if len(patch) < 4 {
		return false
	}
	size, k := binary.Uvarint(patch[4:])
	return k > 0 && size == uint64(len(value)) && binary.LittleEndian.Uint32(patch) == crc32.Checksum(value, castagnoli)
}

// cutPatch returns the first patch of an operand, without its length, and the rest of the operand.
func cutPatch(operand []byte) (patch, rest []byte, err error) {
	n, head := binary.Uvarint(operand)
	if head <= 0 || n > uint64(len(operand)-head) {
		return nil, nil, errPatch("its length is not that of the operand")
	}
	return operand[head : head+int(n)], operand[head+int(n):], nil
}

// NoBase is the error about a patch whose value is missing.
func NoBase() error { return errPatch("there is no value to which it belongs") }

// errPatch says what is wrong with a patch.
func errPatch(why string) error {
	return fmt.Errorf("patch of a value: %s: %w", why, pebble.ErrCorruption)
}

// Patches is Pebble's merge operator. It has the name of Pebble's default, which is in the tables of
// stores that had no patches: a store's format says that it may have some.
func Patches() *pebble.Merger {
	return &pebble.Merger{Name: pebble.DefaultMerger.Name, Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		m := merges.Get().(*merge)
		m.key = append(m.key[:0], key...)
		m.parts, m.buf, m.newer = append(m.parts[:0], 0), append(m.buf[:0], value...), false
		return m, nil
	}}
}

var merges = sync.Pool{New: func() any { return new(merge) }}

// A merge gathers the patches of one key, and the value to which they belong. Pebble owns what
// it hands over, so all of it is copied into one buffer, which serves the next merge when the
// result isn't used any more.
type merge struct {
	key   []byte
	buf   []byte // operands, and at one end the value, in the order in which they came
	parts []int  // where each begins
	newer bool   // the newest came last
	value []byte // the result's memory
}

func (m *merge) MergeNewer(value []byte) error {
	m.newer = true
	return m.MergeOlder(value)
}

func (m *merge) MergeOlder(value []byte) error {
	m.parts = append(m.parts, len(m.buf))
	m.buf = append(m.buf, value...)
	return nil
}

// part returns the i-th part, from the oldest.
func (m *merge) part(i int) []byte {
	if !m.newer {
		i = len(m.parts) - 1 - i
	}
	if i == len(m.parts)-1 {
		return m.buf[m.parts[i]:]
	}
	return m.buf[m.parts[i]:m.parts[i+1]]
}

// Finish returns the value, or one operand for all if the value isn't among them.
func (m *merge) Finish(includesBase bool) (_ []byte, _ io.Closer, err error) {
	m.value = append(m.value[:0], m.part(0)...)
	if includesBase && len(m.parts) == 1 {
		return nil, nil, m.wrong(NoBase())
	}
	for i := 1; i < len(m.parts); i++ {
		p := m.part(i)
		if !includesBase {
			m.value = append(m.value, p...)
			continue
		}
		for len(p) > 0 {
			if m.value, p, err = applyPatch(m.value, p); err != nil {
				return nil, nil, m.wrong(err)
			}
		}
	}
	return m.value, m, nil
}

// wrong says whose value err is about.
func (m *merge) wrong(err error) error { return fmt.Errorf("row %q: %w", m.key, err) }

// Close says that the result isn't used any more.
func (m *merge) Close() error {
	merges.Put(m)
	return nil
}
