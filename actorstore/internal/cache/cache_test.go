package cache_test

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

func key(i int) []byte { return fmt.Appendf(nil, "%04d", i) }

// page returns an entry of a page.
func page(i int, from uint64) *cache.Entry {
	return &cache.Entry{Key: string(key(i)), Value: make([]byte, 4096), From: from, Kind: cache.Page}
}

// TestBound: what is kept stays within the bound, and the books about it are right.
func TestBound(t *testing.T) {
	const bound = 300_000
	c := cache.New(bound)
	parts := []*cache.Part{c.Part(), c.Part()}
	for i := range 4000 {
		p, k := parts[i%2], i*i%500
		switch e := p.Get(key(k)); {
		case e == nil:
			p.Put(page(k, 1), i%3 == 0)
		case i%7 == 0:
			p.Renew(e, make([]byte, 100), 2)
		case i%11 == 0:
			p.Remove(key(k))
		case i%13 == 0:
			p.Drop(e.Hash())
		}
		if i == 3000 {
			parts[1].Die()
			for k := range 2 * cache.MaxClearings {
				parts[0].Clear(key(100+10*k), key(105+10*k), 3)
			}
		}
		kept, err := c.Audit()
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if kept > bound || i == 2000 && kept < bound/2 {
			t.Fatalf("step %d: %d bytes are kept, the bound is %d", i, kept, bound)
		}
	}
}

// TestClear: deleted ranges void what is older and no more, however many there are, and few are compared with.
func TestClear(t *testing.T) {
	for what, clearIn := range map[string]func(p *cache.Part, start, end []byte, seq uint64){
		"far": (*cache.Part).Clear, "near": (*cache.Part).ClearNear,
	} {
		t.Run(what, func(t *testing.T) {
			p, n := cache.New(1<<20).Part(), 2*cache.MaxClearings+2
			for i := range 2 * n {
				p.Put(page(i, 1), false)
			}
			for i := range n {
				clearIn(p, key(2*i), key(2*i+1), uint64(2+i))
				if p.Clearings() > cache.MaxClearings {
					t.Fatalf("a hit is compared with %d ranges", p.Clearings())
				}
			}
			for i := range 2 * n {
				// Near, the last range stands for all.
				if there := p.Peek(key(i)) != nil; there && i%2 == 0 || !there && i%2 == 1 && what == "far" {
					t.Errorf("entry %d is there: %v", i, there)
				}
			}
			p.Put(page(0, 100), false)
			clearIn(p, key(0), nil, 100)
			if p.Peek(key(0)) == nil || p.Peek(key(2*n-1)) != nil {
				t.Error("what is as new as the range is gone, or what is older is there")
			}
			clearIn(p, nil, nil, 101)
			if p.Clearings() != 1 || p.Peek(key(0)) != nil {
				t.Errorf("%d ranges are left by one that holds all", p.Clearings())
			}
		})
	}
}

// TestNone: without memory for it nothing is kept, and nothing is to be tested for.
func TestNone(t *testing.T) {
	c := cache.New(-1)
	p := c.Part()
	p.Die()
	if p != nil || c.Adopt(layout.ID{}, nil) != nil || p.Get(key(0)) != nil || p.Peek(key(0)) != nil || p.Bytes() != 0 {
		t.Error("something is kept")
	}
}

// TestDoor: the second time it lets in, unless too many came between.
func TestDoor(t *testing.T) {
	d := cache.NewDoor(1 << 20)
	again := func(from, n uint64) (in int) {
		for h := from; h < from+n; h++ {
			if d.Knocked(h * 0x9e3779b97f4a7c15) {
				in++
			}
		}
		return in
	}
	if in := again(1, 256); in > 2 { // 256 places; a mark is as good as 15 bits
		t.Errorf("%d of 256 come in the first time", in)
	}
	if in := again(1, 256); in < 240 {
		t.Errorf("%d of 256 come in the second time", in)
	}
	if d.Knocked(0); !d.Knocked(0) {
		t.Error("a hash of 0 never comes in")
	}
	again(1<<20, 1<<14)
	if in := again(1, 256); in > 16 {
		t.Errorf("%d of 256 come in after 16,384 others", in)
	}
}
