// Command largebatch shows a snapshot of Pebble changing under its reader: a batch that is large
// for a memtable may be flushed before it is visible, and the flush drops the values that
// a snapshot taken in between should see. See README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const keys = 20

func main() {
	long := flag.Duration("for", time.Minute, "how long to try")
	flag.Parse()
	log.SetOutput(io.Discard) // where Pebble's messages go
	stores := 0
	for end := time.Now().Add(*long); time.Now().Before(end); stores++ {
		if what := try(); what != "" {
			fmt.Printf("in store %d %s\n", stores+1, what)
			os.Exit(1)
		}
	}
	fmt.Printf("nothing found in %d stores\n", stores)
}

// try overwrites the same keys again and again, each time in one batch, while others read
// them twice from one snapshot. It returns what they saw if it was not the same.
func try() string {
	db, err := pebble.Open("store", &pebble.Options{
		FS: vfs.NewMem(), MemTableSize: 16 << 10,
		// So that several batches are flushed together, as on a busy machine.
		MemTableStopWritesThreshold: 1000, L0StopWritesThreshold: 1000,
	})
	if err != nil {
		return err.Error()
	}
	write(db, 0)
	var found atomic.Pointer[string]
	var over atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for !over.Load() {
				s := db.NewSnapshot()
				a, b := read(s), read(s)
				if err := s.Close(); err != nil {
					a = err.Error()
				}
				if a != b {
					what := fmt.Sprintf("a snapshot showed round %s, then round %s", a, b)
					found.Store(&what)
				}
			}
		})
	}
	for n := 1; n <= 400 && found.Load() == nil; n++ {
		write(db, n)
	}
	over.Store(true)
	readers.Wait()
	if err := db.Close(); err != nil {
		return err.Error()
	}
	if what := found.Load(); what != nil {
		return *what
	}
	return ""
}

// write sets all keys to n. The deletions only make the batch large: an entry takes some
// 200 bytes of a memtable.
func write(db *pebble.DB, n int) {
	b := db.NewBatch()
	var err error
	for i := range keys {
		err = b.Set(fmt.Appendf(nil, "k%02d", i), []byte(strconv.Itoa(n)), nil)
		if err == nil {
			err = b.Delete(fmt.Appendf(nil, "other%02d", i), nil)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := db.Apply(b, pebble.NoSync); err != nil {
		panic(err)
	}
	if err := b.Close(); err != nil {
		panic(err)
	}
}

// read returns the round that all keys are of.
func read(r pebble.Reader) string {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte("k"), UpperBound: []byte("l")})
	if err != nil {
		return err.Error()
	}
	round, n := "", 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > 1 && string(it.Value()) != round {
			round += " and " + string(it.Value())
			break
		}
		round = string(it.Value())
	}
	if err := it.Close(); err != nil {
		return err.Error()
	}
	return round
}
