package archive

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSettle tests that Writers which run now and then alone, until they are settled, make bases, and remove what is too old.
func TestSettle(t *testing.T) {
	m := newModel(t, 61, folder(t))
	m.opts.baseBytes, m.opts.Keep = 1, time.Nanosecond
	for range 5 {
		m.commit(20)
		m.start()
		if err := m.w.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.stop()
		m.open()
	}
	bases, err := readBases(t.Context(), m.bucket, 1)
	if err != nil || len(bases) != 1 || bases[0].first <= 20 {
		t.Errorf("the bases are %+v, want one that isn't the first; %v", bases, err)
	}
	log, err := readLog(t.Context(), m.bucket, 1)
	if err != nil || len(log) > 1 {
		t.Errorf("the segments are %+v; %v", log, err)
	}
}

// TestHoldFails tests that the backup goes on when the store can't write down up to where it is, as on a full disk.
func TestHoldFails(t *testing.T) {
	m := newModel(t, 62, folder(t))
	m.start()
	m.commit(1)
	m.sync()
	held, err := filepath.Glob(filepath.Join(m.dir, "*", "HOLD"))
	if err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	if err := os.MkdirAll(filepath.Join(held[0]+".new", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range holdEvery + 2 {
		m.commit(1)
		m.sync()
	}
	if err := os.RemoveAll(held[0] + ".new"); err != nil {
		t.Fatal(err)
	}
	m.wantLines(1)
}
