package itemstore_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

func postgres(t testing.TB) kv.Engine {
	n := pgtest.Shared(t)
	e, err := pgkv.Open(t.Context(), n.URL("connect_timeout=60&schema="+url.QueryEscape(n.Schema())), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestRandomPostgres(t *testing.T) { testRandom(t, postgres, testkit.Pick(1, 1, 5)) }

// A done is a transaction that landed: what it did, and when.
type done struct {
	at  itemstore.Version
	do  func(m *model)
	log string
}

// landed puts and deletes some items in a transaction, and marker, whose version is then that of the commit.
func (r *rig) landed(marker *Person) (done, error) {
	var acts []func(m *model)
	var text string
	err := r.s.Update(r.ctx, func(tx *itemstore.Tx) error {
		acts, text = nil, ""
		for range 1 + r.rnd.IntN(3) {
			if r.rnd.IntN(3) == 0 {
				p := pathsOf(r.item())[0]
				if err := tx.Delete(r.ctx, p); err != nil {
					return err
				}
				acts = append(acts, func(m *model) { m.delete(p) })
				text += fmt.Sprintf("delete %s; ", p)
				continue
			}
			item := r.item()
			if n, ok := item.(*Note); ok {
				n.Until, n.Text = time.Time{}, []byte("text")
			}
			err := tx.Put(r.ctx, item, nil)
			if kind(err) == itemstore.ErrPathTaken {
				continue
			}
			if err != nil {
				return err
			}
			acts = append(acts, func(m *model) {
				if err := m.put([]any{item}, false); err != nil {
					r.Errorf("the model refuses %s: %v", describe(item), err)
				}
			})
			text += "put " + describe(item) + "; "
		}
		return tx.Put(r.ctx, marker, nil)
	})
	return done{marker.Meta.Version, func(m *model) {
		for _, do := range acts {
			do(m)
		}
		m.items[pathsOf(marker)[0]] = &Person{ID: marker.ID, Name: marker.Name}
	}, text}, err
}

// testConcurrent has several writers change the same items, while clients sync. What landed, in the order of its versions, must
// give the model what the store has.
func testConcurrent(t *testing.T, e kv.Engine, writers, each int) {
	r := newRig(t, e, 0)
	ctx := t.Context()
	var mu sync.Mutex
	var all []done
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			own := &rig{TB: t, ctx: ctx, rnd: rand.New(rand.NewPCG(uint64(w), 2)), s: r.s, m: newModel(r.m.now)}
			for i := range each {
				d, err := own.landed(&Person{ID: uint64(1000 + w), Name: fmt.Sprint(i)})
				if err != nil {
					t.Errorf("transaction: %v", err)
					return
				}
				mu.Lock()
				all = append(all, d)
				mu.Unlock()
			}
		})
	}
	stop := make(chan struct{})
	var clients []*client
	for i := range 3 {
		c := &client{prefix: []itemstore.Path{"/person-1", "/team-1", "/room-a"}[i], opts: &itemstore.ListOptions{}, items: map[itemstore.Path]any{}}
		page, err := r.s.Page(ctx, c.prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.read(r, page)
		clients = append(clients, c)
	}
	var syncing sync.WaitGroup
	syncing.Go(func() {
		for {
			for _, c := range clients {
				ch, err := r.s.Sync(ctx, c.token)
				if err != nil {
					t.Errorf("sync: %v", err)
					return
				}
				c.apply(r, ch)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(stop)
	syncing.Wait()
	slices.SortFunc(all, func(a, b done) int { return a.at.Compare(b.at) })
	for _, d := range all {
		r.did("%s", d.log)
		d.do(r.m)
	}
	r.check()
	for _, c := range clients {
		r.syncClient(c)
	}
}

func TestConcurrent(t *testing.T) {
	for name, open := range map[string]func(testing.TB) kv.Engine{"memory": memory, "disk": disk, "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 60
			if name == "postgres" {
				n = 15
			}
			testConcurrent(t, open(t), 4, testkit.Pick(n/3, n, 10*n))
		})
	}
}
