package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
	"github.com/greenroomdb/greenroom/workflow"
)

// errand is a workflow that ends as its input says.
func errand(c *workflow.Context, in string) (string, error) {
	if in == "asleep" {
		c.SleepUntil("until later", time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))
	}
	return workflow.StepWith(c, "do", &workflow.StepOptions{MaxAttempts: 1, Pause: in == "stuck"}, func(context.Context) (string, error) {
		if in == "stuck" || in == "failed" {
			return "", errors.New("the shop is closed")
		}
		return "done", nil
	})
}

// crowdOfErrands makes a store with that many workflows that are over, and 20 of each other end, under load of all of them.
func crowdOfErrands(t *testing.T, healthy int) {
	t.Helper()
	store, err := greenroom.Open(t.Context(), "data", &greenroom.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	inputs := slices.Repeat([]string{"stuck", "failed", "asleep"}, 20)
	inputs = append(inputs, slices.Repeat([]string{"fine"}, healthy)...)
	next := make(chan int)
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for i := range next {
				if err := runErrand(t.Context(), store, fmt.Sprintf("errand/%s%04d", inputs[i], i), inputs[i]); err != nil {
					t.Errorf("%s: %v", inputs[i], err)
				}
			}
		})
	}
	for i := range inputs {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func runErrand(ctx context.Context, store *greenroom.Store, name, in string) error {
	a, err := store.Actor(ctx, name, nil)
	if err != nil {
		return err
	}
	w, err := greenroom.OpenWorkflow(ctx, a, errand, &greenroom.WorkflowOptions{ShortWait: -1})
	if err == nil {
		err = w.Start(ctx, in)
		if err == nil {
			_, err = w.Run(ctx)
		}
		err = errors.Join(err, w.Close())
	}
	return errors.Join(err, a.Close())
}

// TestFindAmongMany: of thousands of workflows, those that are stuck, that have failed and that sleep are found, exactly these, and
// one command retries the ones that failed.
func TestFindAmongMany(t *testing.T) {
	t.Chdir(t.TempDir())
	crowdOfErrands(t, testkit.Pick(100, 2000, 2000))
	names := func(args ...string) (all []string) {
		for line := range strings.Lines(must(t, append([]string{"workflow", "ls", "data"}, args...)...)) {
			name, _, _ := strings.Cut(line, "\t")
			all = append(all, strings.TrimRight(strings.TrimPrefix(name, "errand/"), "0123456789"))
		}
		slices.Sort(all)
		return all
	}
	all := func(what ...string) (want []string) {
		for _, w := range what {
			want = append(want, slices.Repeat([]string{w}, 20)...)
		}
		return want
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--stuck"}, all("stuck")},
		{[]string{"--state", "failed"}, all("failed")},
		{[]string{"--state", "sleeping"}, all("asleep", "stuck")},
		{[]string{"--state", "sleeping", "--state", "failed", "--order", "since"}, all("asleep", "failed", "stuck")},
		{[]string{"--stuck", "--named", "errand/failed"}, nil},
	} {
		if got := names(c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%q: found %d: %q", c.args, len(got), got)
		}
	}
	if got := must(t, "workflow", "retry", "data", "--state", "failed"); got != "20\n" {
		t.Errorf("retried %q", got)
	}
	if got := names("--state", "failed"); len(got) != 0 {
		t.Errorf("%d have failed still: %q", len(got), got)
	}
	if got := names("--named", "errand/failed", "--limit", "30"); !slices.Equal(got, all("failed")) {
		t.Errorf("those that were retried: %q", got)
	}
	if got := must(t, "check", "data"); !strings.HasSuffix(got, "no problems\n") {
		t.Errorf("check: %s", got)
	}
}

// TestNotIndexed: of a store that an older version made, a search says what to do, and check --repair does it.
func TestNotIndexed(t *testing.T) {
	p := newNotIndexed(t)
	for _, args := range [][]string{{"ls", p.dir, "--state", "failed"}, {"workflow", "ls", p.dir, "--stuck"}, {"workflow", "retry", p.dir, "--state", "failed"}} {
		r := program(t.Context(), strings.NewReader(""), args...)
		if r.code != serving.ExitFailed || !strings.Contains(r.stderr, "greenroom check --repair") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if got := must(t, "check", p.dir); !strings.Contains(got, "note: the index: it isn't built yet") || !strings.HasSuffix(got, "no problems\n") {
		t.Errorf("check: %s", got)
	}
	if got := must(t, "check", "--repair", p.dir); !strings.HasSuffix(got, "no problems\n") {
		t.Errorf("check --repair: %s", got)
	}
	if got := must(t, "ls", p.dir, "--state", "failed"); !strings.HasPrefix(got, "order/1\t") {
		t.Errorf("ls: %s", got)
	}
}

// newNotIndexed makes a store as an older version has, with a workflow that has failed.
func newNotIndexed(t *testing.T) *planter {
	t.Helper()
	p := newPlanter(t)
	t.Chdir(filepath.Dir(p.dir))
	var ids atomic.Int64
	runWorkflow(t, "order/1", "declined", &ids)
	p.rows(nil, func(e kv.Entry) []kv.Op {
		own := tuple.Tuple{"greenroom", int64(1)}
		for _, rows := range []tuple.Tuple{append(own, int64(6)), append(own, int64(7))} {
			if bytes.HasPrefix(e.Key, rows.Pack()) {
				return []kv.Op{kv.Clear(e.Key)}
			}
		}
		if bytes.HasPrefix(e.Key, append(own, int64(1)).Pack()) && bytes.HasSuffix(e.Key, []byte{0x15, 6}) {
			return []kv.Op{kv.Clear(e.Key)}
		}
		return nil
	})
	return p
}

// TestEngineIndexes: the engine builds the index of such a store before it serves.
func TestEngineIndexes(t *testing.T) {
	p := newNotIndexed(t)
	_, stop := runEngine(t, p.dir)
	stop()
	if got := must(t, "ls", p.dir, "--state", "failed"); !strings.HasPrefix(got, "order/1\t") {
		t.Errorf("ls: %s", got)
	}
}
