package archive

import (
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
