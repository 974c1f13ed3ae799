package filecheck

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// Offsets in a trunk page of the free list.
//
// https://sqlite.org/fileformat2.html#the_freelist
const (
	trunkLeaves = 4 // behind the number of the next trunk: how many leaves follow
	trunkHeader = 8
)

// lockByte is where the page begins that SQLite never writes.
//
// https://sqlite.org/fileformat2.html#the_lock_byte_page
const lockByte = 1 << 30

// maxHoles bounds the holes that are remembered until the free list is read.
const maxHoles = 4096

// holes judges the chunks that are missing in one file. In a journal each is lost. In
// a main file SQLite leaves out pages that will never be read: the lock-byte page,
// leaves of the free list, which it doesn't write when they were never anything else,
// and what is beyond the size in its header, but for the last: a file is cut to that
// after the commit that says so, and a crash may come between.
// So the free list is read when there are holes, once for every maxHoles of them.
type holes struct {
	c     *Checker
	f     *keyedFile
	judge bool  // whether holes mean anything
	pages int64 // the page size; 0: each hole means damage
	end   int64 // the size of the file, or the smaller one that the header states
	trunk uint32

	list  []hole // ascending
	lost  int64  // missing chunks that must not be
	first int64  // of them

	buf [chunked.Size]byte
}

// A hole is missing chunks, [from, to).
type hole struct {
	from, to int64
	used     int64 // pages that lie in it at least in part, but for those that may
}

// begin reads what decides about the holes of h.f.
func (h *holes) begin() error {
	c, f := h.c, h.f
	h.first, h.end = -1, f.size
	if f.tag != actorstore.FileMain || f.size == 0 {
		return nil
	}
	b := h.buf[:format.HeaderSize]
	if err := c.read(f, b, 0); err != nil {
		return err
	}
	size := (*format.Header)(b).PageSize()
	if !bytes.HasPrefix(b, format.Magic) || size < 512 || size&(size-1) != 0 {
		h.pages = -1
		return nil
	}
	c.plain = c.plain || f.live
	h.pages, h.trunk = size, binary.BigEndian.Uint32(b[format.FreeListAt:])
	pages := binary.BigEndian.Uint32(b[format.PageCountAt:])
	if bytes.Equal(b[format.CounterAt:][:4], b[format.VersionForAt:][:4]) && pages > 0 {
		h.end = min(f.size, int64(pages)*size)
	}
	return nil
}

// add takes the chunks [from, to) as missing.
func (h *holes) add(from, to int64) error {
	if !h.judge || from >= to {
		return nil
	}
	// SQLite makes a file longer by writing its last page.
	end := chunked.Count(h.end)
	if last := chunked.Count(h.f.size); to == last && end < last {
		h.lose(max(from, end), to)
	}
	if to = min(to, end); from >= to {
		return nil
	}
	switch {
	case h.pages == 0:
		h.lose(from, to)
	case from == 0:
		// Page 1 is there in every file, whatever it is encrypted with.
		h.lose(0, 1)
		return h.add(1, to)
	case h.pages < 0: // it can't be known
	case to-from <= maxHoles:
		for ; from < to; from++ {
			if err := h.note(hole{from: from, to: from + 1}); err != nil {
				return err
			}
		}
	default: // it may be most of 16 TiB
		return h.note(hole{from: from, to: to})
	}
	return nil
}

// lose counts chunks that must be there.
func (h *holes) lose(from, to int64) {
	if h.lost == 0 {
		h.first = from
	}
	h.lost += to - from
}

func (h *holes) note(x hole) error {
	x.used = (min(x.to*chunked.Size, h.end)-1)/h.pages - x.from*chunked.Size/h.pages + 1
	h.list = append(h.list, x)
	if len(h.list) < maxHoles {
		return nil
	}
	return h.settle()
}

// settle decides about the holes in the list, and empties it.
func (h *holes) settle() error {
	if len(h.list) == 0 {
		return nil
	}
	h.free(lockByte / h.pages)
	if err := h.walk(); err != nil {
		return err
	}
	for _, x := range h.list {
		if x.used > 0 {
			h.lose(x.from, x.to)
		}
	}
	h.list = h.list[:0]
	return nil
}

// free takes page number p, counted from 0, as one that may be missing.
func (h *holes) free(p int64) {
	from, to := p*h.pages/chunked.Size, ((p+1)*h.pages-1)/chunked.Size
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].to > from })
	for ; i < len(h.list) && h.list[i].from <= to; i++ {
		h.list[i].used--
	}
}

// walk reads the free list. In a damaged one it ends where it leads out of the file
// or back: SQLite says that then.
func (h *holes) walk() error {
	// Brent's way to notice a circle: the mark moves ahead by growing strides.
	mark, steps, stride := uint32(0), 0, 1
	for at := h.trunk; at != 0 && at != mark && int64(at)*h.pages <= h.f.size; {
		if steps++; steps == stride {
			mark, steps, stride = at, 0, 2*stride
		}
		next, err := h.readTrunk(int64(at-1) * h.pages)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// readTrunk frees the leaves that the trunk page at off names, and returns the next.
func (h *holes) readTrunk(off int64) (next uint32, err error) {
	leaves := int64(0)
	for pos := int64(0); pos < h.pages && pos < trunkHeader+4*leaves; {
		piece := h.buf[:min(h.pages-pos, chunked.Size)]
		if err := h.c.read(h.f, piece, off+pos); err != nil {
			return 0, err
		}
		pos += int64(len(piece))
		if pos == int64(len(piece)) {
			next = binary.BigEndian.Uint32(piece)
			leaves = int64(binary.BigEndian.Uint32(piece[trunkLeaves:]))
			piece = piece[trunkHeader:]
		}
		// pos is behind the piece: so many leaves came before its end.
		left := leaves - (pos-trunkHeader-int64(len(piece)))/4
		for ; len(piece) > 0 && left > 0; left-- {
			if p := binary.BigEndian.Uint32(piece); p > 0 {
				h.free(int64(p) - 1)
			}
			piece = piece[4:]
		}
	}
	return next, nil
}

// finish reports what is lost.
func (h *holes) finish() error {
	if err := h.settle(); err != nil || h.lost == 0 {
		return err
	}
	return h.c.find(Fault, h.f.appendChunk(nil, uint32(h.first)),
		"it is missing below the size of %d bytes, and reads as zeros%s", h.f.size, alike(h.lost-1))
}
