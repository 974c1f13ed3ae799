package archive

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
)

// TestSwapped tests that an object in the place of another one of its kind is damage: of bases, also for what reads one actor alone, and of segments,
// of which the last one has nothing behind it that it must lead to.
func TestSwapped(t *testing.T) {
	for _, kind := range []string{"base", "segment"} {
		t.Run(kind, func(t *testing.T) {
			m := newModel(t, 51, folder(t))
			m.opts.mergeRuns = 1000
			if kind == "base" {
				m.opts.baseBytes = 1
			}
			m.start()
			list := func() []numbered {
				t.Helper()
				m.commit(3)
				m.sync()
				read := readLog
				if kind == "base" {
					read = readBases
				}
				all, err := read(t.Context(), m.bucket, 1)
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			all := list()
			for len(all) < 4 {
				all = list()
			}
			if err := m.w.Close(); err != nil {
				t.Fatal(err)
			}
			// A base of later is where an earlier one was, and a segment of earlier where the last one was.
			from, to := all[0], all[len(all)-1]
			mark := m.archive().manifest.bookmark(1, m.db.Records().Last())
			if kind == "base" {
				from, to = to, all[1]
				mark.Number = to.first
			}
			data, _, err := bucket.GetBytes(t.Context(), m.bucket, from.name, 0, -1)
			if err == nil {
				err = bucket.PutBytes(t.Context(), m.bucket, to.name, data, bucket.Replacing)
			}
			if err != nil {
				t.Fatal(err)
			}
			if db, err := m.archive().open(t.Context(), mark, []group{rest}); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("the state %s is read: %v", mark, err)
				if err == nil {
					_ = db.Close()
				}
			}
			v, err := m.archive().Verify(t.Context(), func(error) {}, nil)
			if err != nil || v.Problems == 0 {
				t.Errorf("Verify: %+v, %v", v, err)
			}
		})
	}
}

// TestHostileIndex tests that an index whose numbers can't be those of a segment is damage, and no panic.
func TestHostileIndex(t *testing.T) {
	for name, change := range map[string]func(*builder){
		"huge block":      func(b *builder) { b.blocks[0].size = math.MaxInt64 },
		"earlier records": func(b *builder) { *b.groups[rest] = run{}; b.run([]byte(rest)).add(1-b.first, []byte("op")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(unknown)
			b.first, b.last, b.times = 10, 12, []recordTime{{10, 1}}
			b.run([]byte(rest)).add(0, []byte("op"))
			z, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			object := b.encode(z)
			if name == "huge block" {
				head := len(b.index.append(nil)) + segmentHeader
				blocks := object[head:]
				change(b)
				object = append(appendHeader(nil, b.index.append(nil)), blocks...)
			} else {
				change(b)
				b.blocks = nil
				object = b.encode(z)
			}
			bk := folder(t)
			object10 := firstName(1, 10)
			if err := bucket.PutBytes(t.Context(), bk, object10, object, bucket.Once); err != nil {
				t.Fatal(err)
			}
			if _, err := joined(t.Context(), bk, []numbered{{name: object10}}); !errors.Is(err, kv.ErrCorrupt) {
				t.Error(err)
			}
		})
	}
}

// TestLastOfFuture tests that the last state is the last one, also if the clock of the store was years ahead.
func TestLastOfFuture(t *testing.T) {
	m := newModel(t, 52, folder(t))
	m.opts.now = func() time.Time { return time.Now().AddDate(5, 0, 0) }
	m.start()
	m.commit(10)
	m.sync()
	mark, _, err := m.archive().Last(t.Context())
	if want := m.db.Records().Last(); err != nil || mark.Number != want {
		t.Errorf("the last state is %d, want %d; %v", mark.Number, want, err)
	}
}
