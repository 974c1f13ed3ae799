package pebblekv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
)

// TestCrashes: a crash ends the engine with its process. The disk keeps what the engine promised,
// and the old engine promises nothing more.
func TestCrashes(t *testing.T) {
	kvtest.RunCrashes(t, 2, func(t testing.TB) (kv.Engine, kvtest.Crasher) {
		mem := vfs.NewCrashableMem()
		db, err := open("store", tiny, mem)
		if err != nil {
			t.Fatal(err)
		}
		return db, func(t testing.TB) kv.Engine {
			mem = mem.CrashClone(vfs.CrashCloneCfg{})
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if db, err = open("store", tiny, mem); err != nil {
				t.Fatal(err)
			}
			return db
		}
	})
}
