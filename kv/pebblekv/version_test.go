package pebblekv

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// TestVersionsSeen: a reader sees commits of transactions that a crash loses. Whatever
// came between, no version that it has seen comes again, nor a lower one.
func TestVersionsSeen(t *testing.T) {
	for _, tt := range []struct {
		name string
		// between is done before the transaction that is seen and lost.
		between func(t *testing.T, d *DB)
	}{
		{"nothing", func(*testing.T, *DB) {}},
		{"commits of the engine", func(t *testing.T, d *DB) {
			for range 1000 {
				if err := d.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("p"), nil)}, Durability: kv.Applied}); err != nil {
					t.Fatal(err)
				}
			}
		}},
		// A million commits take seconds and do nothing else to the version.
		{"a million commits of the engine", func(_ *testing.T, d *DB) { d.commits.version.Add(versionGap + 100) }},
		{"many millions", func(_ *testing.T, d *DB) { d.commits.version.Add(10 * versionGap) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk, newest := NewCrashDisk(), uint64(0)
			for session := range 4 {
				d, err := disk.Open(nil)
				if err != nil {
					t.Fatal(err)
				}
				stamp := func(key string) {
					s, err := stampTwice(txs(t, d), key)
					if err != nil {
						t.Fatal(err)
					}
					v := binary.BigEndian.Uint64(s[:])
					if v <= newest {
						t.Errorf("session %d: version %d after %d was seen", session, v, newest)
					}
					newest = v
				}
				if session%2 == 0 {
					stamp("kept")
				}
				tt.between(t, d)
				// The crash is between the commit's being visible and its being on the disk:
				// of it, only what was on the disk before is left.
				crashed := lastSync(t, d, disk)
				stamp("lost")
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				disk = crashed
			}
		})
	}
}

// lastSync returns what a crash leaves just before the next commit of a transaction is
// on the disk.
func lastSync(t *testing.T, d *DB, disk *CrashDisk) *CrashDisk {
	t.Helper()
	s := &txStore{d.commits, d.reads}
	if err := s.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	defer s.Leave()
	return disk.Crash(0, rand.New(rand.NewPCG(1, 1)))
}

// TestReserveLate: where half a gap of commits comes between Enter and Apply, the version
// is reserved all the same.
func TestReserveLate(t *testing.T) {
	disk := NewCrashDisk()
	d, err := disk.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &txStore{d.commits, d.reads}
	if err := s.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	d.commits.version.Add(5 * versionGap)
	s.Lock()
	wait, err := s.Apply([]kv.Op{kv.Set([]byte("k"), nil)}, s.Version()+1)
	after := disk.Crash(0, rand.New(rand.NewPCG(1, 1)))
	s.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	s.Leave()
	seen := d.commits.version.Load()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = after.Open(nil); err != nil {
		t.Fatal(err)
	}
	if got := d.commits.version.Load(); got < seen {
		t.Errorf("version %d after a crash, %d was seen", got, seen)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
