package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/queue"
)

// A bank is accounts that are actors, each with a table of its balance and one of its transfers.
type bank struct {
	testing.TB
	store    *greenroom.Store
	accounts []*greenroom.Actor
}

// openBank opens a bank of n accounts, which get 100 each when they are made.
func openBank(t testing.TB, engine kv.Engine, n int) *bank {
	return openBankWith(t, engine, n, batch.Limits{})
}

func openBankWith(t testing.TB, engine kv.Engine, n int, limits batch.Limits) *bank {
	t.Helper()
	store, err := greenroom.New(ctx, engine, &greenroom.Options{Limits: limits})
	must(t, err)
	b := &bank{TB: t, store: store}
	for i := range n {
		a, err := store.Actor(ctx, fmt.Sprint("account ", i), nil)
		must(t, err)
		b.accounts = append(b.accounts, a)
		if a.Lower().Seq() > 0 {
			continue
		}
		must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
			for _, q := range []string{
				"create table account(balance integer not null check (balance >= 0))", "insert into account values (100)",
				"create table transfer(id integer primary key, amount integer not null)",
				"create table note(of integer not null references transfer(id) deferrable initially deferred)",
			} {
				if _, err := tx.Exec(q); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return b
}

func (b *bank) close() {
	b.Helper()
	for _, a := range b.accounts {
		_ = a.Close() // some are poisoned
	}
	must(b, b.store.Close())
}

// bookIn adds an amount to an account, by SQL, a key, the state and a message.
func bookIn(tx *greenroom.Tx, amount int) error {
	if _, err := tx.Exec("update account set balance = balance + ?", amount); err != nil {
		return err
	}
	if _, err := tx.Exec("insert into transfer(amount) values (?)", amount); err != nil {
		return err
	}
	if _, err := tx.Enqueue(queue.Send{Name: "booked", Body: amount}); err != nil {
		return err
	}
	return errors.Join(tx.Put([]byte("last"), fmt.Append(nil, amount)), greenroom.SetState(tx, amount))
}

// transfer moves an amount from one account to each of others.
func (b *bank) transfer(amount, from int, to ...int) error {
	actors := []*greenroom.Actor{b.accounts[from]}
	for _, i := range to {
		actors = append(actors, b.accounts[i])
	}
	return greenroom.Update(ctx, actors, func(txs []*greenroom.Tx) error {
		for i, tx := range txs {
			sum := amount
			if i == 0 {
				sum = -amount * len(to)
			}
			if err := bookIn(tx, sum); err != nil {
				return err
			}
		}
		return nil
	})
}

// balances returns those of all accounts, and holds that each is what its transfers, messages, key and state say.
func (b *bank) balances() (all []int) {
	b.Helper()
	for _, a := range b.accounts {
		must(b, b.store.View(ctx, a.Name(), func(v *greenroom.View) error {
			var balance, sum, last, n int
			if err := v.QueryRow("select balance, (select 100 + coalesce(sum(amount), 0) from transfer), (select count(*) from transfer), "+
				"coalesce((select amount from transfer order by id desc limit 1), 0) from account").Scan(&balance, &sum, &n, &last); err != nil {
				return err
			}
			messages := 0
			for _, err := range v.Messages(nil) {
				if messages++; err != nil {
					return err
				}
			}
			key, err := v.Get([]byte("last"))
			if err != nil && !errors.Is(err, greenroom.ErrNotFound) {
				return err
			}
			if balance != sum || messages != n || n > 0 && string(key) != fmt.Sprint(last) {
				b.Errorf("%s has %d, its transfers say %d; %d messages for %d transfers, and the last was %s, not %d", a.Name(), balance, sum, messages, n, key, last)
			}
			all = append(all, balance)
			return nil
		}))
	}
	return all
}

func (b *bank) want(what string, want ...int) {
	b.Helper()
	if got := b.balances(); !slices.Equal(got, want) {
		b.Errorf("%s: the balances are %v, want %v", what, got, want)
	}
}

// TestTogether: a transfer between actors is one engine commit and one fsync, with everything that each transaction does.
func TestTogether(t *testing.T) {
	engine := faultkv.New(memkv.New())
	b := openBank(t, engine, 4)
	defer b.close()
	must(t, b.transfer(1, 0, 1))
	engine.Reset()
	must(t, b.transfer(10, 2, 0, 1))
	if c := engine.Counts(); c.Commits != 1 || c.Durable != 1 || c.Syncs != 0 {
		t.Errorf("a transfer over three accounts took %+v", c)
	}
	b.want("after two transfers", 109, 111, 80, 100)
	// One of the actors is only read, one does without SQL, and one does nothing.
	engine.Reset()
	must(t, greenroom.Update(ctx, b.accounts, func(txs []*greenroom.Tx) error {
		var n int
		if err := txs[2].QueryRow("select balance from account").Scan(&n); err != nil {
			return err
		}
		_, err := txs[0].Exec("update account set balance = balance")
		return errors.Join(err, txs[1].Put([]byte("seen"), fmt.Append(nil, n)))
	}))
	if c := engine.Counts(); c.Commits != 1 {
		t.Errorf("a transaction that reads took %+v", c)
	}
	engine.Reset()
	must(t, greenroom.Update(ctx, b.accounts, func([]*greenroom.Tx) error { return nil }))
	if c := engine.Counts(); c.Commits != 0 {
		t.Errorf("a transaction that does nothing took %+v", c)
	}
	must(t, b.transfer(1, 3, 2))
	b.want("in the end", 109, 111, 81, 99)
}

// TestTogetherRefused: when the transaction of one actor is refused, nothing of the others' has landed, in the store or in memory.
func TestTogetherRefused(t *testing.T) {
	no := errors.New("no")
	large := func(rows int) func(tx *greenroom.Tx) error {
		return func(tx *greenroom.Tx) error {
			_, err := tx.Exec("create table large as select value, randomblob(1000) from generate_series(1, ?)", rows)
			return err
		}
	}
	for name, tt := range map[string]struct {
		last func(tx *greenroom.Tx) error // after the transfer
		want error                        // nil for any
	}{
		"by fn":                    {func(*greenroom.Tx) error { return no }, no},
		"by a CHECK":               {func(tx *greenroom.Tx) error { return bookIn(tx, -1000) }, nil},
		"by a deferred constraint": {func(tx *greenroom.Tx) error { _, err := tx.Exec("insert into note values (99)"); return err }, nil},
		"by a ROLLBACK":            {func(tx *greenroom.Tx) error { _, err := tx.Exec("rollback"); return err }, nil},
		"by what is staged":        {func(tx *greenroom.Tx) error { tx.Batch().Late(func(*batch.Batch) error { return no }); return nil }, no},
		"as too large":             {large(4000), batch.ErrTooLarge},
		"as too large for memory":  {large(40000), batch.ErrTooLarge},
		"as too large for a commit": {func(tx *greenroom.Tx) (err error) {
			for i := range 9 {
				err = errors.Join(err, tx.Put([]byte{byte(i)}, make([]byte, 120<<10)))
			}
			return err
		}, batch.ErrTooLarge},
	} {
		for _, where := range []int{0, 1, 2} {
			t.Run(fmt.Sprint(name, " ", where), func(t *testing.T) {
				engine := faultkv.New(memkv.New())
				b := openBankWith(t, engine, 3, batch.Limits{AtomicBatches: 3})
				defer b.close()
				must(t, b.transfer(1, 0, 1, 2))
				engine.Reset()
				err := greenroom.Update(ctx, b.accounts, func(txs []*greenroom.Tx) error {
					for i, tx := range txs {
						if err := bookIn(tx, []int{-20, 10, 10}[i]); err != nil {
							return err
						}
					}
					return tt.last(txs[where])
				})
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if c := engine.Counts(); c.Commits != 0 {
					t.Errorf("it took %+v", c)
				}
				b.want("after it", 98, 101, 101)
				must(t, b.transfer(5, 2, 0, 1))
				b.want("in the end", 103, 106, 91)
			})
		}
	}
}

// TestTogetherMisused: what no transaction can be of.
func TestTogetherMisused(t *testing.T) {
	b, other := openBank(t, memkv.New(), 2), openBank(t, memkv.New(), 1)
	defer b.close()
	defer other.close()
	no := func([]*greenroom.Tx) error { t.Error("fn was called"); return nil }
	for _, actors := range [][]*greenroom.Actor{nil, {b.accounts[0], b.accounts[0]}, {b.accounts[0], other.accounts[0]}, make([]*greenroom.Actor, greenroom.MaxTogether+1)} {
		wantErr(t, fmt.Sprint(len(actors), " actors"), greenroom.Update(ctx, actors, no), kv.ErrInvalid)
	}
	must(t, greenroom.Update(ctx, b.accounts, func(txs []*greenroom.Tx) error {
		wantErr(t, "an Update within", b.accounts[1].Update(ctx, func(*greenroom.Tx) error { return nil }), greenroom.ErrNested)
		wantErr(t, "an Update of several within", greenroom.Update(ctx, b.accounts[1:], no), greenroom.ErrNested)
		return nil
	}))
	func() {
		defer func() {
			if recover() != "out" {
				t.Error("a panic was lost")
			}
		}()
		_ = greenroom.Update(ctx, b.accounts, func(txs []*greenroom.Tx) error { must(t, bookIn(txs[1], 7)); panic("out") })
	}()
	b.want("after a panic", 100, 100)
}

// TestTogetherHookPanics: a hook that panics when everything has landed keeps nothing of it from memory.
func TestTogetherHookPanics(t *testing.T) {
	for where := range 3 {
		b := openBank(t, memkv.New(), 3)
		func() {
			defer func() {
				if p := recover(); p != "hook" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = greenroom.Update(ctx, b.accounts, func(txs []*greenroom.Tx) error {
				txs[where].Batch().OnCommit(func() { panic("hook") })
				return errors.Join(bookIn(txs[0], -20), bookIn(txs[1], 10), bookIn(txs[2], 10))
			})
		}()
		b.want("after it", 80, 110, 110)
		for _, a := range b.accounts { // a message that memory doesn't know would not be received
			must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
				m, err := tx.Receive()
				if err != nil || m == nil {
					return fmt.Errorf("received %v, %w", m, err)
				}
				return nil
			}))
		}
		must(t, b.transfer(5, 2, 0, 1))
		b.want("in the end", 85, 115, 100)
		b.close()
	}
}

// TestTogetherCrash: after a crash behind any engine commit, all of each transfer is there, or nothing.
func TestTogetherCrash(t *testing.T) {
	tape := engines.NewTape()
	b := openBank(t, tape, 3)
	from := tape.Len()
	for i := range 6 {
		must(t, b.transfer(i+1, i%3, (i+1)%3, (i+2)%3))
	}
	b.close()
	for n := from; n <= tape.Len(); n++ {
		after := openBank(t, tape.At(t, n), 3)
		if got := after.balances(); got[0]+got[1]+got[2] != 300 {
			t.Errorf("after %d engine commits the balances are %v", n, got)
		}
		must(t, after.transfer(1, 0, 1))
		after.close()
	}
}

// TestTogetherFaults: each operation of a transfer fails once, and the transfer has landed whole or not at all, as its error says.
func TestTogetherFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot} {
		for skip := range 20 {
			engine := faultkv.New(memkv.New())
			b := openBank(t, engine, 3)
			b.close()
			b = openBank(t, engine, 3) // with nothing in memory
			fault := engine.Fail(faultkv.Rule{Point: point, Skip: skip, Err: broken})
			err := b.transfer(10, 0, 1, 2)
			hits := fault.Hits()
			engine.Heal()
			b.close()
			b = openBank(t, engine, 3)
			got := b.balances()
			whole, none := slices.Equal(got, []int{80, 110, 110}), slices.Equal(got, []int{100, 100, 100})
			if !whole && !none || err == nil && none || err != nil && whole && !errors.Is(err, greenroom.ErrPoisoned) {
				t.Errorf("%v, %d before it: %v, and the balances are %v", point, skip, err, got)
			}
			must(t, b.transfer(1, 1, 0))
			b.close()
			if hits == 0 {
				break
			}
		}
	}
}

// TestTogetherFenced: when one actor is another owner's, nothing lands, and the others go on.
func TestTogetherFenced(t *testing.T) {
	engine := memkv.New()
	b := openBank(t, engine, 3)
	defer b.close()
	thief := openBank(t, engine, 0) // another Store of this process
	defer thief.close()
	a, err := thief.store.Actor(ctx, "account 1", nil)
	must(t, err)
	defer a.Close()
	err = b.transfer(10, 0, 1, 2)
	if wantErr(t, "one is another's", err, greenroom.ErrFenced); !strings.Contains(err.Error(), b.accounts[1].Lower().ID().String()) {
		t.Errorf("it doesn't name the actor: %v", err)
	}
	must(t, b.transfer(5, 0, 2))
	b.want("without it", 95, 100, 105)
}

// TestTogetherAtOnce: transfers in rings and between hot pairs, callers that give up, and Updates of single actors: none waits for ever,
// and nothing is lost.
func TestTogetherAtOnce(t *testing.T) {
	b := openBank(t, memkv.New(), 6)
	defer b.close()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 25 {
				from := (w + i) % 6
				switch i % 5 {
				case 0:
					_ = b.transfer(1, 0, 1) // a hot pair
				case 1:
					_ = b.transfer(1, 1, 0)
				case 2:
					_ = b.transfer(2, from, (from+1)%6, (from+2)%6)
				case 3:
					if err := b.accounts[from].Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("visited"), nil) }); err != nil {
						t.Error(err)
					}
				default:
					short, cancel := context.WithTimeout(ctx, time.Duration(w)*50*time.Microsecond)
					_ = greenroom.Update(short, []*greenroom.Actor{b.accounts[5], b.accounts[from%5]}, func(txs []*greenroom.Tx) error {
						return errors.Join(bookIn(txs[0], -1), bookIn(txs[1], 1))
					})
					cancel()
				}
			}
		})
	}
	over, looks := make(chan struct{}), 0
	go func() { all.Wait(); close(over) }()
	for done := false; !done; looks++ {
		select {
		case <-over:
			done = true
		default:
		}
		if sum := b.sum(); sum != 600 {
			t.Errorf("the sum is %d", sum)
		}
	}
	if b.balances(); looks < 2 {
		t.Errorf("%d looks", looks)
	}
	err := b.store.Views(ctx, []string{b.accounts[0].Name(), "no account"}, func([]*greenroom.View) error { t.Error("fn was called"); return nil })
	wantErr(t, "an actor that isn't there", err, greenroom.ErrNotFound)
	must(t, b.store.Views(ctx, nil, func(vs []*greenroom.View) error { return nil }))
}

// TestTogetherEngines: many transfer among many accounts, over two and three of them, some of which fail half-way, while others read all balances at one
// moment: the sum is right in each, in memory and on Pebble. host.TestTogetherPostgres has the same of PostgreSQL.
func TestTogetherEngines(t *testing.T) {
	accounts, workers := testkit.Pick(16, 24, 200), testkit.Pick(8, 16, 64)
	for name, open := range map[string]func(t *testing.T) kv.Engine{
		"memory": func(*testing.T) kv.Engine { return memkv.New() },
		"pebble": func(t *testing.T) kv.Engine {
			db, err := pebblekv.Open(t.TempDir(), nil)
			must(t, err)
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := open(t)
			b := openBank(t, engine, accounts)
			var all sync.WaitGroup
			var enough atomic.Bool
			for w := range workers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(w)))
					for !enough.Load() {
						at := random.Perm(accounts)
						_ = b.transfer(random.IntN(60), at[0], at[1:2+random.IntN(2)]...) // some have too little
					}
				})
			}
			for looks := testkit.Pick(5, 20, 30); looks > 0; looks-- {
				if sum := b.sum(); sum != 100*accounts {
					t.Errorf("the sum is %d", sum)
					break
				}
			}
			enough.Store(true)
			all.Wait()
			if got := b.balances(); !slices.ContainsFunc(got, func(n int) bool { return n != 100 }) {
				t.Error("no balance has changed")
			}
			b.close()
			must(t, engine.Close())
		})
	}
}

// sum returns that of all balances at one moment.
func (b *bank) sum() (sum int) {
	b.Helper()
	names := make([]string, len(b.accounts))
	for i, a := range b.accounts {
		names[i] = a.Name()
	}
	must(b, b.store.Views(ctx, names, func(vs []*greenroom.View) error {
		for _, v := range vs {
			var n int
			if err := v.QueryRow("select balance from account").Scan(&n); err != nil {
				return err
			}
			sum += n
		}
		return nil
	}))
	return sum
}
