package admin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/adminsock"
)

// BenchmarkBeside measures what an actor's commits take alone, beside a client that reads the actor all the time, and beside one that reads another
// store: the 99th percentile of 300 commits of each, in turns. The client takes a processor in both cases; if it also blocked the
// actor, the ratio of the latter two, of which the 95 % interval of the median is reported, would be above 1.
func BenchmarkBeside(b *testing.B) {
	dir, other := filepath.Join(b.TempDir(), "store"), filepath.Join(b.TempDir(), "other")
	a := benchActor(b, dir)
	benchActor(b, other)
	p99 := func() float64 {
		took := make([]float64, 300)
		for i := range took {
			start := time.Now()
			ok(b, a.Update(b.Context(), func(tx *greenroom.Tx) error {
				_, err := tx.Exec("update t set v = randomblob(100) where i = ?", 1+rand.IntN(2000))
				return err
			}))
			took[i] = float64(time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	beside := func(dir string) float64 {
		client := &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return adminsock.Dial(ctx, dir) },
		}}
		defer client.CloseIdleConnections()
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan int)
		go func() {
			n := 0
			for ctx.Err() == nil {
				if err := readAll(ctx, client); err == nil {
					n++
				} else if ctx.Err() == nil {
					b.Error(err)
					break
				}
			}
			ended <- n
		}()
		took := p99()
		cancel()
		if n := <-ended; n == 0 {
			b.Error("nothing was read")
		}
		return took
	}
	var alone, another, same, ratio []float64
	for b.Loop() {
		x, y, z := p99(), beside(other), beside(dir)
		alone, another, same, ratio = append(alone, x), append(another, y), append(same, z), append(ratio, z/y)
	}
	low, high := interval(ratio)
	b.ReportMetric(median(alone), "p99-alone-ns")
	b.ReportMetric(median(another), "p99-other-ns")
	b.ReportMetric(median(same), "p99-same-ns")
	b.ReportMetric(median(ratio), "ratio")
	b.ReportMetric(low, "ratio-low")
	b.ReportMetric(high, "ratio-high")
}

// benchActor serves a store in dir, and returns its actor room, which has a table.
func benchActor(b *testing.B, dir string) *greenroom.Actor {
	store, err := greenroom.Open(b.Context(), dir, nil)
	ok(b, err)
	server, err := admin.Listen(b.Context(), dir, store, &admin.Options{Logger: slog.New(slog.DiscardHandler)})
	ok(b, err)
	a, err := store.Actor(b.Context(), "room", nil)
	ok(b, err)
	b.Cleanup(func() { ok(b, errors.Join(a.Close(), server.Close(), store.Close())) })
	ok(b, a.Update(b.Context(), func(tx *greenroom.Tx) error {
		_, err := tx.Exec(`create table t(i integer primary key, v); with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
			insert into t select i, randomblob(100) from n`)
		return errors.Join(err, tx.Put([]byte("k"), []byte("v")))
	}))
	return a
}

func ok(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// readAll reads the tables of an actor, one of them, and its keys.
func readAll(ctx context.Context, c *http.Client) error {
	for _, r := range []struct{ method, path, body string }{
		{http.MethodGet, "/schema", ""}, {http.MethodGet, "/keys", ""},
		{http.MethodPost, "/query", `{"sql": "select count(*), sum(length(v)) from t"}`},
	} {
		q, err := http.NewRequestWithContext(ctx, r.method, "http://greenroom/v1/actors/room"+r.path, strings.NewReader(r.body))
		if err != nil {
			return err
		}
		resp, err := c.Do(q)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(r.path + ": " + resp.Status + " " + string(text))
		}
	}
	return nil
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// interval returns the 95 % interval of the median, by resampling.
func interval(all []float64) (low, high float64) {
	medians := make([]float64, 1000)
	for i := range medians {
		again := make([]float64, len(all))
		for j := range again {
			again[j] = all[rand.IntN(len(all))]
		}
		medians[i] = median(again)
	}
	slices.Sort(medians)
	return medians[25], medians[975]
}
