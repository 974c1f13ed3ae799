package archive

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A model is a store with a Writer, of which every state is remembered.
type model struct {
	t      *testing.T
	dir    string
	disk   *pebblekv.CrashDisk // in place of dir, if it isn't nil
	db     *pebblekv.DB
	bucket bucket.Bucket
	w      *Writer
	opts   Options
	rnd    *rand.Rand
	rows   map[string]string
	states map[uint64]map[string]string
}

// newModel makes an empty store.
func newModel(t *testing.T, seed uint64, b bucket.Bucket) *model {
	m := &model{
		t: t, dir: filepath.Join(t.TempDir(), "store"), bucket: b, rnd: rand.New(rand.NewPCG(seed, 2)),
		rows: map[string]string{}, states: map[uint64]map[string]string{0: {}},
		opts: Options{Every: 2 * time.Millisecond, Store: "model", Keep: -1, sleep: func(ctx context.Context, _ time.Duration) error { return sleep(ctx, time.Millisecond) }},
	}
	m.open()
	return m
}

// folder returns an empty bucket.
func folder(t *testing.T) bucket.Bucket {
	t.Helper()
	b, err := bucket.Folder(filepath.Join(t.TempDir(), "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (m *model) open() {
	m.t.Helper()
	o := &pebblekv.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20}
	db, err := (*pebblekv.DB)(nil), error(nil)
	if m.disk != nil {
		db, err = m.disk.Open(o)
	} else {
		db, err = pebblekv.Open(m.dir, o)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.db = db
	m.t.Cleanup(func() { _ = db.Close() })
}

// start starts a Writer.
func (m *model) start() {
	m.t.Helper()
	w, err := Start(m.db, m.bucket, &m.opts)
	if err != nil {
		m.t.Fatal(err)
	}
	m.w = w
	m.t.Cleanup(func() { _ = w.Close() })
}

// sync has all be in the bucket.
func (m *model) sync() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), testkit.Patience(time.Second))
	defer cancel()
	if err := m.w.Sync(ctx); err != nil {
		m.t.Fatal(err)
	}
}

// stop closes the Writer and the store.
func (m *model) stop() {
	m.t.Helper()
	if m.w != nil {
		if err := m.w.Close(); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := m.db.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.w, m.db = nil, nil
}

// commit makes some random commits.
func (m *model) commit(n int) {
	m.t.Helper()
	for range n {
		c := &kv.Commit{}
		for i := range c.ID {
			c.ID[i] = byte(m.rnd.Uint32())
		}
		for range 1 + m.rnd.IntN(4) {
			key := fmt.Sprintf("%c/%03d", 'a'+m.rnd.IntN(3), m.rnd.IntN(100))
			switch k := m.rnd.IntN(20); {
			case k == 0:
				end := key + "~"
				c.Ops = append(c.Ops, kv.Op{Kind: kv.OpClearRange, Key: []byte(key[:3]), Value: []byte(end)})
				maps.DeleteFunc(m.rows, func(k, _ string) bool { return k >= key[:3] && k < end })
			case k < 3:
				c.Ops = append(c.Ops, kv.Op{Kind: kv.OpClear, Key: []byte(key)})
				delete(m.rows, key)
			default:
				value := []byte(m.rows[key])
				if len(value) == 0 || k < 6 {
					value = bytes.Repeat([]byte{byte(m.rnd.Uint32())}, m.rnd.IntN(3000))
				} else {
					value[m.rnd.IntN(len(value))]++
				}
				c.Ops = append(c.Ops, kv.Op{Kind: kv.OpSet, Key: []byte(key), Value: value})
				m.rows[key] = string(value)
			}
		}
		if m.rnd.IntN(3) == 0 {
			c.Durability = kv.Durable
		}
		if err := m.db.Commit(m.t.Context(), c); err != nil {
			m.t.Fatal(err)
		}
		m.states[m.db.Records().Last()] = maps.Clone(m.rows)
	}
}

// crash has the machine crash: the store is what its disk has, with a part of what isn't synced.
func (m *model) crash() {
	m.t.Helper()
	disk := m.disk.Crash(m.rnd.IntN(101), m.rnd)
	_ = m.w.Close() // the end of its life doesn't matter
	_ = m.db.Close()
	m.disk = disk
	m.open()
	m.rows = maps.Clone(m.states[m.db.Records().Last()])
	if got := rowsOf(m.t, m.db); !maps.Equal(got, m.rows) {
		m.t.Fatalf("after the crash it has %d rows, want %d", len(got), len(m.rows))
	}
}

// archive opens what is in the bucket.
func (m *model) archive() *Archive {
	m.t.Helper()
	a, err := Open(m.t.Context(), m.bucket)
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

// rowsOf reads all rows of a store.
func rowsOf(t *testing.T, db *pebblekv.DB) map[string]string {
	t.Helper()
	s, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := map[string]string{}
	for e, err := range s.Scan(t.Context(), kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

// look returns what a state has when it is read where it is.
func look(t *testing.T, a *Archive, mark Bookmark) map[string]string {
	t.Helper()
	db, err := a.open(t.Context(), mark, nil)
	if err != nil {
		t.Fatalf("open %s: %v", mark, err)
	}
	defer db.Close()
	return rowsOf(t, db)
}

// restored returns the rows of a store that is made of a state.
func restored(t *testing.T, a *Archive, mark Bookmark) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	if err := a.Restore(t.Context(), mark, dir, nil); err != nil {
		t.Fatalf("restore %s: %v", mark, err)
	}
	db, err := pebblekv.Open(dir, &pebblekv.Options{CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return rowsOf(t, db)
}
