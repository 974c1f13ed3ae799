package txntest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testClaim: many workers take jobs off one list, each with a scan that doesn't count
// and a span declared for the job that was chosen: every job is taken, and by one of them
// alone.
func testClaim(t *testing.T, db *txn.DB) {
	const workers, jobs, choices = 8, 48, 12
	var ops []kv.Op
	for i := range jobs {
		ops = append(ops, suite.Set(fmt.Sprintf("job%02d", i), ""))
	}
	suite.Commit(t, db.Engine(), ops...)
	var mu sync.Mutex
	taken := map[string]int{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				job, err := claim(db, choices)
				if err != nil {
					t.Error(err)
				}
				if err != nil || job == "" {
					return
				}
				mu.Lock()
				taken[job]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range jobs {
		if job := fmt.Sprintf("job%02d", i); taken[job] != 1 {
			t.Errorf("%s was taken %d times", job, taken[job])
		}
	}
}

// claim removes one of the first jobs and returns its key, "" when no job is left.
func claim(db *txn.DB, choices int) (job string, err error) {
	err = db.Update(ctx, func(tx *txn.Tx) error {
		job = ""
		n, chosen := 0, rand.IntN(choices)
		for e, err := range tx.Snapshot().Scan(ctx, kv.Range{Start: []byte("job"), End: []byte("joc"), Limit: choices}) {
			if err != nil {
				return err
			}
			if n <= chosen {
				job = string(e.Key)
			}
			n++
		}
		if job == "" {
			return nil
		}
		if err := tx.AddReadConflictKey([]byte(job)); err != nil {
			return err
		}
		return tx.Clear([]byte(job))
	})
	return job, err
}
