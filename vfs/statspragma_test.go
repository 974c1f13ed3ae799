package vfs_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestStatsPragma reads the counts through SQL.
func TestStatsPragma(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 1})
	exec(t, db, "create table t(a)")
	exec(t, db, "insert into t values (1)")
	counts := statsOf(t, db)
	for name, want := range map[string]int64{
		"atomic_commits": db.Stats().AtomicCommits, "published": 2, "connections": 1, "log_bytes": 0, "fallbacks": 0,
		"file_bytes": 8192, "actor_bytes": r.Actor.Used(), "actor_commits": int64(r.Actor.Seq()),
	} {
		if got, ok := counts[name]; !ok || got != want {
			t.Errorf("%s=%d, %v, want %d", name, got, ok, want)
		}
	}
	logged(t, db)
	exec(t, db, "insert into t values (2)")
	if counts := statsOf(t, db); counts["log_commits"] != 1 || counts["log_bytes"] < 4096 {
		t.Errorf("in WAL mode: %v", counts)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA greenroom_stats=1"); err == nil || !strings.Contains(err.Error(), "takes no value") {
		t.Errorf("PRAGMA greenroom_stats=1: %v", err)
	}
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	old, err := vfs.OpenView(t.Context(), view, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, ok := statsOf(t, old)["actor_bytes"]; ok {
		t.Error("a view tells of an actor")
	}
}

// statsOf parses the answer of PRAGMA greenroom_stats.
func statsOf(t *testing.T, db *vfs.DB) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for line := range strings.Lines(one[string](t, db, "PRAGMA greenroom_stats") + "\n") {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if _, twice := counts[name]; !ok || err != nil || twice || name != strings.ToLower(name) {
			t.Errorf("a line is %q", line)
		}
		counts[name] = n
	}
	if len(counts) < 15 {
		t.Error(fmt.Sprint(counts))
	}
	return counts
}
