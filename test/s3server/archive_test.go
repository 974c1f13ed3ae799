package s3server

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/s3"
)

// backup starts a Writer until the test ends.
func (s *store) backup(b bucket.Bucket) *archive.Writer {
	s.t.Helper()
	w, err := archive.Start(s.db, b, &archive.Options{Every: 20 * time.Millisecond, Store: s.dir})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = w.Close() }) // it may be closed already
	return w
}

// stored waits until all is in the bucket.
func stored(t *testing.T, w *archive.Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestBackupKilled tests that a backup has no gap although the server is killed ten times while the store is written to, and that
// whatever can be restored is a state that the store had.
func TestBackupKilled(t *testing.T) {
	const kills, between, outage = 10, 200, 20 * time.Second
	server, s := newServer(t), newStore(t)
	b := server.openPatient("backup", 2*time.Second)
	w := s.backup(b)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	commits := s.load(ctx, 4)
	for i := range kills {
		stored(t, w)
		for range rand.N(between) {
			<-commits
		}
		goroutines := runtime.NumGoroutine()
		server.kill()
		down := time.Now()
		for range rand.N(between) {
			<-commits
		}
		if i == kills/2 { // for longer: the bucket's patience ends, and the Writer's begins
			for time.Since(down) < outage {
				<-commits
			}
			if st := w.Status(); !errors.Is(st.Err, s3.ErrUnreachable) || st.Stored == st.Last || st.Lag < outage/2 || st.Fatal != nil {
				t.Errorf("after an outage: %+v", st)
			}
			if n := runtime.NumGoroutine(); n > goroutines+10 {
				t.Errorf("%d goroutines during an outage, %d before", n, goroutines)
			}
		}
		server.start()
	}
	acknowledged := s.counts()
	stored(t, w)
	a, line := onlyLine(t, b)
	for worker, n := range restore(t, a, line.Last) {
		if n < acknowledged[worker] {
			t.Errorf("%d commits of %s were made before Sync, %d are restored", acknowledged[worker], worker, n)
		}
	}
	stop()
	for range commits { // until the workers have ended
	}
	stored(t, w)
	if st := w.Status(); st.Err != nil || st.Fatal != nil || st.Stored != st.Last {
		t.Errorf("in the end: %+v", st)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	everyState(t, b, s.counts())
}

// onlyLine returns the only lineage of an archive.
func onlyLine(t *testing.T, b bucket.Bucket) (*archive.Archive, archive.Line) {
	t.Helper()
	a, err := archive.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := a.Lines(t.Context())
	if err != nil || len(lines) != 1 {
		t.Fatalf("%d lineages: %+v, %v", len(lines), lines, err)
	}
	return a, lines[0]
}

// everyState restores many states of the only lineage of an archive, the last of which has to have some commits, and tests Verify, At and
// Collect.
func everyState(t *testing.T, b bucket.Bucket, want map[string]int) {
	t.Helper()
	a, line := onlyLine(t, b)
	step := max(1, (line.Last.Number-line.First.Number)/20)
	for m := line.First; m.Number < line.Last.Number; m.Number += 1 + rand.Uint64N(2*step) {
		restore(t, a, m)
	}
	verify := func() archive.Verified {
		v, err := a.Verify(t.Context(), func(err error) { t.Error(err) }, nil)
		if err != nil || v.Lines != 1 || v.Bases == 0 || v.Segments == 0 {
			t.Errorf("%+v, %v", v, err)
		}
		return v
	}
	verify()
	for _, at := range []time.Time{line.Begun, line.Begun.Add(line.Ended.Sub(line.Begun) / 2), line.Ended} {
		m, made, err := a.At(t.Context(), at)
		if err != nil || made.After(at) {
			t.Fatalf("at %v: %s of %v, %v", at, m, made, err)
		}
		restore(t, a, m)
	}
	c, err := archive.Collect(t.Context(), b, time.Now())
	if err != nil {
		t.Error(err)
	}
	v := verify()
	t.Logf("%d commits in %d segments and %d bases; %d objects were collected", line.Last.Number, line.Segments, line.Bases, c.Objects)
	if v.Bases != 1 {
		t.Errorf("%d bases are left", v.Bases)
	}
	if got := restore(t, a, line.Last); !maps.Equal(got, want) {
		t.Errorf("restored are %v, committed were %v", got, want)
	}
}

// TestRestoreKilled tests that a restore while the server is killed says so and leaves nothing, and that the next one is whole.
func TestRestoreKilled(t *testing.T) {
	server, s := newServer(t), newStore(t)
	for range 2000 {
		if err := s.commit(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	w := s.backup(server.openPatient("backup", time.Minute))
	stored(t, w)
	for range 100 {
		if err := s.commit(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		stored(t, w)
	}
	a, line := onlyLine(t, server.openPatient("backup", time.Second))
	for _, part := range []int64{0, 10, 50, 90} {
		dir, killed := filepath.Join(t.TempDir(), "restored"), false
		kill := func(done, of int64) {
			if !killed && done*100 >= of*part {
				killed = true
				server.kill()
			}
		}
		if part == 0 {
			kill(0, 1)
		}
		err := a.Restore(t.Context(), line.Last, dir, &archive.RestoreOptions{Progress: kill})
		if !killed {
			t.Fatalf("the server wasn't killed at %d %%: %v", part, err)
		}
		if !errors.Is(err, s3.ErrUnreachable) {
			t.Errorf("killed at %d %%: %v", part, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) > 0 {
			t.Errorf("killed at %d %%, a restore leaves %v, %v", part, entries, err)
		}
		server.start()
		server.open("backup") // it answers
		if err := a.Restore(t.Context(), line.Last, dir, nil); err != nil {
			t.Fatal(err)
		}
		if got := stateOf(t, dir, line.Last.Number); !maps.Equal(got, s.counts()) {
			t.Errorf("restored are %v, committed were %v", got, s.counts())
		}
	}
}

// TestTwoWriters tests that of the Writers of two copies of a store that write to one destination one ends and says why, whether the
// store has backups there or not, and that no state is one of both copies.
func TestTwoWriters(t *testing.T) {
	for _, known := range []bool{false, true} {
		server, one := newServer(t), newStore(t)
		for range 100 {
			if err := one.commit(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if known {
			w := one.backup(server.open("backup"))
			stored(t, w)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := one.db.Close(); err != nil {
			t.Fatal(err)
		}
		two := &store{t: t, dir: filepath.Join(t.TempDir(), "copy"), made: one.counts()}
		if err := os.CopyFS(two.dir, os.DirFS(one.dir)); err != nil {
			t.Fatal(err)
		}
		stores := map[string]*store{"b": one, "c": two}
		ctx, stop := context.WithCancel(t.Context())
		ends := make(chan end)
		for worker, s := range stores {
			s.open()
			w := s.backup(server.open("backup"))
			go func() { ends <- end{worker, s.commitUntil(ctx, w, worker)} }()
		}
		first := <-ends
		stop()
		second := <-ends
		if want := map[bool]error{false: archive.ErrOtherStore, true: archive.ErrFenced}[known]; !errors.Is(first.err, want) {
			t.Errorf("with backups %v, the first one ends with %v", known, first.err)
		}
		if second.err != nil {
			t.Errorf("with backups %v, the second one: %v", known, second.err)
		}
		t.Log(first.err)
		ofOneEach(t, server.open("backup"), stores[second.worker])
		for _, s := range stores {
			if err := s.db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// An end is how the Writer of a copy with a worker has ended, nil if it was told to.
type end struct {
	worker string
	err    error
}

// commitUntil makes a worker's commits, each of which must be in the bucket before the next, until the Writer ends or ctx does. All is
// in the bucket then.
func (s *store) commitUntil(ctx context.Context, w *archive.Writer, worker string) (err error) {
	over := false
	for err == nil && !over {
		over = ctx.Err() != nil
		if err = s.commit(s.t.Context(), worker); err == nil {
			err = w.Sync(s.t.Context())
		}
	}
	cerr := w.Close()
	if err == nil {
		err = cerr
	}
	return err
}

// ofOneEach tests that each lineage has the states of one of two copies, whose workers are b and c, and that the last state is that of a store.
func ofOneEach(t *testing.T, b bucket.Bucket, s *store) {
	t.Helper()
	a, err := archive.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := a.Lines(t.Context())
	if err != nil || len(lines) == 0 {
		t.Fatalf("%+v, %v", lines, err)
	}
	for _, l := range lines {
		var all []string
		step := (l.Last.Number - l.First.Number) / 5
		for m := l.First; ; m.Number = min(l.Last.Number, m.Number+1+rand.Uint64N(step+1)) {
			got := restore(t, a, m)
			if got["b"] > 0 && got["c"] > 0 {
				t.Errorf("%s has commits of both: %v", m, got)
			}
			for _, worker := range []string{"b", "c"} {
				if got[worker] > 0 && !slices.Contains(all, worker) {
					all = append(all, worker)
				}
			}
			if m.Number == l.Last.Number {
				if len(all) > 1 {
					t.Errorf("lineage %d has states of both", l.Number)
				}
				if l == lines[len(lines)-1] && !maps.Equal(got, s.counts()) {
					t.Errorf("the last state has %v, committed were %v", got, s.counts())
				}
				break
			}
		}
	}
}
