package kvtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testClears: commits at the same time, each of which removes what others write, leave
// what some order of them leaves. What a commit has to remove may just be coming.
func testClears(t *testing.T, open suite.Opener) {
	all := suite.DelRange("d/", "d0")
	for _, tt := range []struct {
		name    string
		before  []kv.Op
		commits [][]kv.Op
		want    []string // what may be left, one state each
	}{
		{"each replaces the range", nil, [][]kv.Op{{all, suite.Set("d/0", "x")}, {all, suite.Set("d/1", "x")}, {all, suite.Set("d/2", "x")}},
			[]string{"d/0=x", "d/1=x", "d/2=x"}},
		{"keys that are not there", nil, [][]kv.Op{{suite.Del("d/0"), suite.Set("d/1", "x")}, {suite.Del("d/1"), suite.Set("d/0", "x")}},
			[]string{"d/0=x", "d/1=x"}},
		{"one key, beside another that both write", nil, [][]kv.Op{{suite.Del("d/0"), suite.Set("d/2", "y")}, {suite.Set("d/0", "x"), suite.Set("d/2", "x")}},
			[]string{"d/0=x d/2=x", "d/2=y"}},
		{"a range, and what is new and old in it", []kv.Op{suite.Set("d/1", "old")}, [][]kv.Op{{all}, {suite.Set("d/0", "x"), suite.Set("d/1", "x")}},
			[]string{"", "d/0=x d/1=x"}},
		{"a range, and old before new", []kv.Op{suite.Set("d/0", "old")}, [][]kv.Op{{all}, {suite.Set("d/0", "x"), suite.Set("d/1", "x")}},
			[]string{"", "d/0=x d/1=x"}},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			eng := suite.Start(t, open)
			rounds := testkit.Pick(60, 120, 480)
			bad := 0
			for range rounds {
				suite.Commit(t, eng, append([]kv.Op{suite.DelRange("d", "e")}, tt.before...)...)
				var wg sync.WaitGroup
				for _, ops := range tt.commits {
					wg.Go(func() {
						if err := eng.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if got := wholeRange(t, eng, "d/", "d0"); !slices.Contains(tt.want, got) {
					if bad++; bad == 1 {
						t.Errorf("left %q, want one of %q", got, tt.want)
					}
				}
			}
			if bad > 0 {
				t.Errorf("so in %d of %d rounds", bad, rounds)
			}
		})
	}
}

// testCheckedClears: commits that check one key are ordered by it, whatever they remove.
func testCheckedClears(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	suite.Commit(t, eng, suite.Set("head", "0"))
	const workers, each = 4, 15
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := 0; i < each; {
				head, err := eng.Get(ctx, []byte("head"), nil)
				if err != nil {
					t.Error(err)
					return
				}
				me := fmt.Sprintf("%d.%d", w, i)
				err = eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{{Key: []byte("head"), Value: head}}, Ops: []kv.Op{
					suite.DelRange("d/", "d0"), suite.Set("d/"+me, me), suite.Set("head", me), suite.Del("e/" + fmt.Sprint(1-w%2)), suite.Set("e/"+fmt.Sprint(w%2), me)}})
				switch {
				case err == nil:
					i++
				case !errors.Is(err, kv.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	head, err := eng.Get(ctx, []byte("head"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"d", "e"} {
		got := wholeRange(t, eng, prefix+"/", prefix+"0")
		if strings.Contains(got, " ") || !strings.HasSuffix(got, "="+string(head)) {
			t.Errorf("the last commit was %s, and left %q", head, got)
		}
	}
}

// wholeRange returns the entries of a range as wantScan writes them.
func wholeRange(t testing.TB, r kv.Reader, start, end string) string {
	t.Helper()
	var got []string
	for e, err := range r.Scan(ctx, suite.Between(start, end)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s=%s", e.Key, e.Value))
	}
	return strings.Join(got, " ")
}
