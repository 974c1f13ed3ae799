package engine

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A modelAccount is what an account must have.
type modelAccount struct {
	*account
	held, lent int64 // as the test knows them
	read       int64 // since the last time it was whole
	waits      int64 // bytes of a take that hasn't returned
	took       chan error
	cut        bool
}

// A budgetModel does to a budget at random what clients do.
type budgetModel struct {
	*testing.T
	b    *budget
	rnd  *rand.Rand
	list []*modelAccount // that aren't closed, or have lent something
}

// TestBudgetModel compares budgets with a model, step by step.
func TestBudgetModel(t *testing.T) {
	for seed := range 40 {
		synctest.Test(t, func(t *testing.T) {
			m := &budgetModel{T: t, b: newBudget(&Options{Memory: 1 << 20, MaxBody: 128 << 10}), rnd: rand.New(rand.NewPCG(uint64(seed), 1))}
			for range 300 {
				m.step()
				synctest.Wait()
				m.check()
			}
			for _, a := range m.list {
				a.close()
				a.repaid(a.lent, false) // both know the same
			}
			synctest.Wait()
			m.list = nil
			m.check()
			if b := m.b; len(b.addrs)+len(b.actors)+len(b.accounts)+len(b.line) > 0 || b.over != nil {
				t.Errorf("seed %d: at the end there are %d addresses, %d actors, %d accounts, %d waiting", seed, len(b.addrs), len(b.actors), len(b.accounts), len(b.line))
			}
		})
	}
}

func (m *budgetModel) open() {
	a := &modelAccount{took: make(chan error, 1)}
	from := netip.AddrFrom4([4]byte{127, 0, 0, byte(m.rnd.IntN(3))})
	a.account = m.b.open(from, numbered(byte(m.rnd.IntN(4))), func() { a.cut = true })
	m.list = append(m.list, a)
}

func (m *budgetModel) step() {
	if len(m.list) == 0 || len(m.list) < 30 && m.rnd.IntN(8) == 0 {
		m.open()
		return
	}
	a, n := m.list[m.rnd.IntN(len(m.list))], 1+m.rnd.Int64N(piece)
	m.b.mu.Lock()
	gone := a.account.closed
	m.b.mu.Unlock()
	switch m.rnd.IntN(10) {
	case 0, 1, 2:
		if a.waits > 0 || gone {
			return
		}
		if a.read += n; a.read > 128<<10 {
			a.read = n
			a.whole()
		}
		a.waits = n
		go func() { a.took <- a.take(m.Context(), n) }()
	case 3:
		if a.charge(n) {
			a.held += n
		}
	case 4:
		if n = min(n, a.held-a.lent); n > 0 && !gone {
			a.give(n)
			a.held -= n
		}
	case 5:
		if n = min(n, a.held-a.lent); n > 0 && !gone {
			a.lend(n)
			a.lent += n
		}
	case 6:
		if n = min(n, a.lent); n > 0 {
			keep := m.rnd.IntN(2) == 0
			a.repaid(n, keep)
			if a.lent -= n; !keep || gone {
				a.held -= n
			}
		}
	case 7:
		a.await(m.rnd.IntN(2), m.rnd.IntN(3) > 0)
	case 8:
		<-time.After(time.Duration(m.rnd.IntN(1500)) * time.Millisecond)
	case 9:
		if m.rnd.IntN(3) == 0 {
			a.close()
		}
	}
}

// check compares all accounts and shares with the model.
func (m *budgetModel) check() {
	m.Helper()
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	all, addrs, actors := int64(0), map[*share]int64{}, map[*share]int64{}
	rest := m.list[:0]
	for _, a := range m.list {
		select {
		case err := <-a.took:
			if err == nil {
				a.held += a.waits
			} else if !a.account.closed {
				m.Errorf("take: %v", err)
			}
			a.waits = 0
		default:
		}
		if a.cut && !a.account.closed {
			m.Error("an account that is cut off is open")
		}
		if a.account.closed {
			a.held = a.lent // the rest is given back
		}
		if a.account.held != a.held || a.account.lent != a.lent || a.held < a.lent {
			m.Errorf("an account has %d bytes and has lent %d, not %d and %d", a.account.held, a.account.lent, a.held, a.lent)
		}
		own := max(a.held-free, 0)
		all += a.held
		addrs[a.addr] += own
		actors[a.actor] += own
		if !a.account.closed || a.lent > 0 || a.waits > 0 {
			rest = append(rest, a)
		}
	}
	m.list = rest
	if m.b.all.used != all || all > m.b.all.limit+128<<10 {
		m.Errorf("%d bytes are used, not %d", m.b.all.used, all)
	}
	for s, used := range addrs {
		if s.used != used || used > s.limit+128<<10 {
			m.Errorf("%d bytes of an address are used, not %d of %d", s.used, used, s.limit)
		}
	}
	for s, used := range actors {
		if s != nil && (s.used != used || used > s.limit+128<<10) {
			m.Errorf("%d bytes of an actor are used, not %d of %d", s.used, used, s.limit)
		}
	}
}

// TestBudgetShares: what is small waits for no share of another client, what is large waits for its own ones, and half-read bodies
// don't wait for each other.
func TestBudgetShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(&Options{Memory: 8 << 20, MaxBody: 1 << 20}) // an address has 4 MiB, and 2 for what is read
		open := func(addr, actor byte) *account {
			return b.open(netip.AddrFrom4([4]byte{10, 0, 0, addr}), numbered(actor), func() { t.Error("a client is cut off") })
		}
		body := func(a *account) (done *bool) {
			done = new(bool)
			go func() {
				got, err := a.read(t.Context(), bytes.NewReader(make([]byte, 1<<20)), -1, 0)
				*done = err == nil && len(got) == 1<<20
			}()
			return done
		}
		var accounts []*account
		var done []*bool
		for range 5 {
			accounts = append(accounts, open(1, 1))
			done = append(done, body(accounts[len(accounts)-1]))
			synctest.Wait()
		}
		if !*done[0] || !*done[1] || !*done[2] || *done[3] || *done[4] { // the third is the one that may go on
			t.Errorf("%v %v %v %v %v", *done[0], *done[1], *done[2], *done[3], *done[4])
		}
		if small := open(1, 1); small.take(t.Context(), free) != nil {
			t.Error("a small request is refused")
		} else {
			small.close()
		}
		other := open(2, 2)
		if ready := body(other); true {
			synctest.Wait()
			if !*ready {
				t.Error("another client of another actor waits")
			}
		}
		for i, a := range accounts {
			a.close()
			synctest.Wait()
			if i < 2 && !*done[3] && !*done[4] || i > 0 && !(*done[3] && *done[4]) {
				t.Errorf("when body %d has gone, the others are there: %v, %v", i, *done[3], *done[4])
			}
		}
		other.close()
		if b.all.used != 0 {
			t.Errorf("%d bytes are used", b.all.used)
		}
	})
}

// TestBudgetCut: a client that takes nothing is cut off when another one needs its room, the largest first; and a reader that
// ends early gives back what it has taken.
func TestBudgetCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(&Options{Memory: 2 << 20, MaxBody: 1 << 20})
		var cut []string
		open := func(name string, n int64) *account {
			a := b.open(netip.Addr{}, actorstore.ID{}, func() { cut = append(cut, name) })
			if !a.charge(n) {
				t.Errorf("%s is refused", name)
			}
			a.await(taking, true)
			return a
		}
		open("small", 500<<10)
		open("large", 1<<20)
		late := open("late", 400<<10)
		if late.charge(1 << 20); len(cut) > 0 {
			t.Errorf("%q are cut off at once", cut)
		}
		<-time.After(stallTime)
		late.await(taking, false)
		if !late.charge(1 << 20) {
			t.Error("there is room, and it is refused")
		}
		if got := strings.Join(cut, " "); got != "large" {
			t.Errorf("%s are cut off", got)
		}
		late.close()
		early := b.open(netip.Addr{}, actorstore.ID{}, func() {})
		if _, err := early.read(t.Context(), io.MultiReader(strings.NewReader("x"), errReader{}), 10, 0); err == nil || early.held != 1 {
			t.Errorf("%v, and %d bytes are held", err, early.held)
		}
		for a := range b.accounts {
			a.close()
		}
		if early.take(t.Context(), 1) == nil || early.charge(1) || b.all.used != 0 {
			t.Errorf("a closed account takes, or %d bytes are used", b.all.used)
		}
	})
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// numbered returns an id; 0 is for no actor.
func numbered(n byte) (id actorstore.ID) {
	id.UUID[0] = n
	return id
}
