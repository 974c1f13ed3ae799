package filecheck

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

const main = actorstore.FileMain

// A pagesReader serves the chunks that a test gives, as every file.
type pagesReader struct {
	Reader
	pages map[uint32][]byte
}

func (r pagesReader) ID() actorstore.ID { return actorstore.ID{} }

func (r pagesReader) Page(_ context.Context, key, dst []byte) ([]byte, error) {
	p, ok := r.pages[binary.BigEndian.Uint32(key[len(key)-4:])]
	if !ok {
		return dst, actorstore.ErrNotFound
	}
	return append(dst, p...), nil
}

// lostIn returns which of the holes of a main file mean damage.
func lostIn(t *testing.T, pages map[uint32][]byte, size int64, gaps ...[2]int64) (first, lost int64) {
	t.Helper()
	c := &Checker{ctx: t.Context(), r: pagesReader{pages: pages}, yield: func(actorstore.Finding, error) bool { return true }}
	h := &holes{c: c, f: &keyedFile{tag: main, size: size}, judge: true}
	if err := h.begin(); err != nil {
		t.Fatal(err)
	}
	for _, g := range gaps {
		if err := h.add(g[0], g[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.finish(); err != nil {
		t.Fatal(err)
	}
	return h.first, h.lost
}

// page1 returns the first chunk of a database.
func page1(pageSize int, trunk uint32) []byte {
	b := make([]byte, chunked.Size)
	copy(b, format.Magic)
	binary.BigEndian.PutUint16(b[format.PageSizeAt:], uint16(pageSize>>16|pageSize))
	binary.BigEndian.PutUint32(b[format.FreeListAt:], trunk)
	return b
}

// trunk returns the first chunk of a trunk page.
func trunk(next uint32, leaves ...uint32) []byte {
	b := make([]byte, chunked.Size)
	binary.BigEndian.PutUint32(b, next)
	binary.BigEndian.PutUint32(b[trunkLeaves:], uint32(len(leaves)))
	for i, p := range leaves {
		binary.BigEndian.PutUint32(b[trunkHeader+4*i:], p)
	}
	return b
}

func TestHoles(t *testing.T) {
	const lock = lockByte / chunked.Size
	type pages = map[uint32][]byte
	size := int64(lockByte + 1<<20)
	for _, c := range []struct {
		name  string
		pages pages
		gaps  [][2]int64
		first int64
		lost  int64
	}{
		{"lock-byte page", pages{0: page1(4096, 0)}, [][2]int64{{lock, lock + 1}}, -1, 0},
		{"beside the lock-byte page", pages{0: page1(4096, 0)}, [][2]int64{{lock - 1, lock + 2}}, lock - 1, 2},
		{"large lock-byte page", pages{0: page1(65536, 0)}, [][2]int64{{lock, lock + 16}}, -1, 0},
		{"beside the large lock-byte page", pages{0: page1(65536, 0)}, [][2]int64{{lock, lock + 17}}, lock + 16, 1},
		{"lock-byte page of many to a chunk", pages{0: page1(512, 0)}, [][2]int64{{lock, lock + 1}}, lock, 1},
		{"leaves", pages{0: page1(4096, 2), 1: trunk(3, 10, 12), 2: trunk(0, 11)}, [][2]int64{{9, 12}}, -1, 0},
		{"more than leaves", pages{0: page1(4096, 2), 1: trunk(3, 10, 12), 2: trunk(0, 11)}, [][2]int64{{8, 13}}, 8, 2},
		{"leaves of half a chunk", pages{0: page1(2048, 3), 1: trunk(0, 9, 10, 11)}, [][2]int64{{4, 6}}, 5, 1},
		{"leaf in the middle of a large page", pages{0: page1(65536, 2), 16: trunk(0, 3)}, [][2]int64{{34, 35}, {40, 48}}, -1, 0},
		{"circle", pages{0: page1(4096, 2), 1: trunk(3), 2: trunk(4), 3: trunk(3)}, [][2]int64{{9, 10}}, 9, 1},
		{"trunk that is its own next", pages{0: page1(4096, 2), 1: trunk(2, 10)}, [][2]int64{{9, 10}}, -1, 0},
		{"trunk beyond the file", pages{0: page1(4096, 1<<31)}, [][2]int64{{9, 10}}, 9, 1},
		{"trunk that is missing", pages{0: page1(4096, 2)}, [][2]int64{{1, 2}}, 1, 1},
		{"leaves beyond the file and none", pages{0: page1(4096, 2), 1: trunk(0, 0, 1<<32-1, 10)}, [][2]int64{{9, 10}}, -1, 0},
		{"a count of leaves that can't be", pages{0: page1(4096, 2), 1: binary.BigEndian.AppendUint32(make([]byte, 4), 1<<32-1)}, [][2]int64{{9, 10}}, 9, 1},
		{"huge", pages{0: page1(4096, 0)}, [][2]int64{{1, 200_000}}, 1, 199_999},
		{"not SQLite's", pages{0: make([]byte, 4096)}, [][2]int64{{9, 10}}, -1, 0},
		{"no page size", pages{0: page1(1000, 0)}, [][2]int64{{9, 10}}, -1, 0},
		{"not SQLite's, and no beginning", nil, [][2]int64{{0, 10}}, 0, 1},
	} {
		if first, lost := lostIn(t, c.pages, size, c.gaps...); first != c.first || lost != c.lost {
			t.Errorf("%s: %d lost from %d on, want %d from %d", c.name, lost, first, c.lost, c.first)
		}
	}
}

// TestManyHoles: more holes than are remembered, and a trunk page of several chunks.
func TestManyHoles(t *testing.T) {
	pages := map[uint32][]byte{0: page1(65536, 2)}
	var list []byte
	const n = 12_000
	list = binary.BigEndian.AppendUint32(list, 0)
	list = binary.BigEndian.AppendUint32(list, n)
	var gaps [][2]int64
	for i := range uint32(n) {
		list = binary.BigEndian.AppendUint32(list, 100+2*i)
		gaps = append(gaps, [2]int64{int64(99+2*i) * 16, int64(99+2*i)*16 + 3})
	}
	for i, piece := range slices.Collect(slices.Chunk(list, chunked.Size)) {
		pages[16+uint32(i)] = piece
	}
	if first, lost := lostIn(t, pages, 1<<32, gaps...); lost != 0 {
		t.Errorf("%d lost from %d on", lost, first)
	}
	gaps = append(gaps, [2]int64{gaps[n-1][1] + 20, gaps[n-1][1] + 21})
	if first, lost := lostIn(t, pages, 1<<32, gaps...); lost != 1 || first != gaps[n][0] {
		t.Errorf("%d lost from %d on, want 1 from %d", lost, first, gaps[n][0])
	}
}
