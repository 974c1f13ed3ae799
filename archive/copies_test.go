package archive

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
)

// cutOff is a bucket that stores one segment more after cut is set, calls cut then, and stores no segments from then on.
type cutOff struct {
	bucket.Bucket
	mu       sync.Mutex
	cut      func() // +checklocks:mu
	off      bool   // +checklocks:mu
	attempts int    // +checklocks:mu
	often    chan struct{}
}

var errCutOff = errors.New("the bucket is cut off")

func (c *cutOff) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if !strings.Contains(name, "/log/") {
		return c.Bucket.Put(ctx, name, body, how)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		if c.attempts++; c.attempts == 100 {
			close(c.often)
		}
		return errCutOff
	}
	err := c.Bucket.Put(ctx, name, body, how)
	if err == nil && c.cut != nil {
		c.off = true
		c.cut()
	}
	return err
}

// TestBaseOfCopy tests that a base isn't stored before the records that it has: a copy of the store, which has others of the same numbers, may
// go on with the lineage.
func TestBaseOfCopy(t *testing.T) {
	t.Parallel()
	b := &cutOff{Bucket: folder(t), often: make(chan struct{})}
	m := newModel(t, 11, b)
	m.opts.baseBytes = 1
	m.start()
	m.commit(1)
	m.sync()
	m.stop()
	m.open()
	m.commit(200)
	other := &model{t: t, bucket: b.Bucket, opts: m.opts, rnd: m.rnd}
	other.opts.baseBytes = 1 << 30
	b.mu.Lock()
	b.cut = func() {
		if err := m.db.Sync(t.Context(), 0); err != nil {
			t.Error(err)
		}
		other.dir, other.rows, other.states = copyFolder(t, m.dir), maps.Clone(m.rows), maps.Clone(m.states)
		m.commit(10)
	}
	b.mu.Unlock()
	m.start()
	<-b.often
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	other.open()
	other.commit(20)
	other.start()
	other.wantLines(1)
	a := other.archive()
	for number := other.db.Records().Last() - 19; number <= other.db.Records().Last(); number++ {
		if got := restored(t, a, a.manifest.bookmark(1, number)); !maps.Equal(got, other.states[number]) {
			t.Errorf("the state %d isn't the store's", number)
		}
	}
}

// TestBaseOfOther tests that the names of tables in the last base aren't taken for the store's: Erase makes a base of which they aren't.
func TestBaseOfOther(t *testing.T) {
	m := newModel(t, 12, folder(t))
	m.commit(50)
	m.start()
	m.commit(1)
	m.sync()
	m.stop()
	bases, err := readBases(t.Context(), m.bucket, 1)
	if err != nil || len(bases) != 1 { // of record 50, or of 51, if that came before it
		t.Fatal(bases, err)
	}
	name := bases[0].name
	l, err := readBase(t.Context(), m.bucket, name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Files {
		if f := &l.Files[i]; f.table() {
			data := make([]byte, f.Size)
			f.Sum = hexSum(data)
			if err := bucket.PutBytes(t.Context(), m.bucket, f.object(), data, bucket.Replacing); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := l.encode()
	if err == nil {
		err = bucket.PutBytes(t.Context(), m.bucket, name, data, bucket.Replacing)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.opts.baseBytes = 1
	m.open()
	m.start()
	for bases := 1; bases < 2; {
		m.commit(1)
		m.sync()
		all, err := readBases(t.Context(), m.bucket, 1)
		if err != nil {
			t.Fatal(err)
		}
		bases = len(all)
	}
	m.wantLines(1)
}

// TestBaseWaits tests that a base is stored when the lineage has its last record, and not before.
func TestBaseWaits(t *testing.T) {
	b := buckettest.NewMemory()
	l, err := newLink(nil, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &shipper{w: &Writer{link: l}, at: place{line: 1, last: 9}, made: &baseList{Format: formatVersion, Number: 10}}
	for last := uint64(9); last <= 10; last++ {
		s.at.last = last
		if err := s.storeMade(t.Context()); err != nil {
			t.Fatal(err)
		}
		bases, err := readBases(t.Context(), b, 1)
		if err != nil || len(bases) != int(last-9) {
			t.Errorf("with record %d there are %d bases, %v", last, len(bases), err)
		}
	}
}
