package host

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
)

// Letters are bounds of what actors send to others with Context.Send. The zero value has
// none.
type Letters struct {
	// To are the actors to which messages may be sent: the text of an address, where a *
	// at the end stands for anything, such as "room/*" for all of a type. Others are
	// ErrNotAllowed. nil means all.
	To []string
	// Generations is how many actors, each created by a message of the one before, may
	// follow upon one that was created by a call or anything else. A message that would
	// create another one is ErrGenerations; one to an actor that exists never is. 0 means
	// no bound, a negative value that messages create no actors.
	Generations int
	// Rate is how many messages an actor may send in a second, and Burst how many at once,
	// if it has sent none for long enough. Others are ErrTooFast. A Rate of 0 means
	// no bound, a Burst of 0 ten seconds' worth.
	Rate  float64
	Burst int
}

// allows says whether messages may be sent to an actor.
func (o *Letters) allows(name string) bool {
	if o.To == nil {
		return true
	}
	for _, pattern := range o.To {
		if prefix, ok := strings.CutSuffix(pattern, "*"); pattern == name || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// oneLetter is a letter as accounts count.
const oneLetter = 1_000_000

// charge counts a letter, or says that it is too much.
func (o *Letters) charge(a *mailrow.Account, now time.Time) bool {
	if o.Rate <= 0 {
		return true
	}
	burst := float64(o.Burst)
	if o.Burst <= 0 {
		burst = math.Ceil(10 * o.Rate)
	}
	ms := now.UnixMilli()
	paid := float64(max(ms-a.At, 0)) * o.Rate / 1000 * oneLetter
	debt := max(float64(a.Debt)-paid, 0)
	if debt > (max(burst, 1)-1)*oneLetter {
		return false
	}
	a.Debt, a.At = int64(math.Ceil(debt))+oneLetter, ms
	return true
}

// permit looks whether a letter may be sent, and says in it what it may do.
func (c *Context) permit(to Address, l *mailrow.Letter) error {
	o := c.life.kind.Letters
	if o == nil {
		o = c.life.host.opts.Letters
	}
	if o == nil {
		o = &Letters{}
	}
	l.Generation = c.account.Generation + 1
	if !o.allows(l.To) {
		return fmt.Errorf("%w: %.80q", ErrNotAllowed, l.To)
	}
	must := c.life.host.types[to.Type].MustCreate
	if must || o.Generations < 0 || o.Generations > 0 && int64(l.Generation) > int64(o.Generations) {
		l.Existing = true
		exists, err := c.life.host.exists(c, to)
		switch {
		case err != nil:
			return err
		case !exists && must:
			return ErrNoActor
		case !exists:
			return fmt.Errorf("%w: limit %d", ErrGenerations, max(o.Generations, 0))
		}
	}
	if !o.charge(c.account, c.now) {
		return fmt.Errorf("%w: limit %v per second", ErrTooFast, o.Rate)
	}
	return nil
}

// exists says whether there is an actor, awake or not. One that is being created isn't there.
func (h *Host) exists(c *Context, a Address) (bool, error) {
	if (visitor{h}).serves(a.String()) {
		return true, nil
	}
	id, err := h.store.Lookup(c, a.String())
	if err != nil {
		return false, ignore(err, actorstore.ErrUnknownActor)
	}
	v, err := h.store.View(c, id)
	if err != nil {
		return false, ignore(err, actorstore.ErrUnknownActor)
	}
	note, err := creationNote(c, v.Snapshot)
	return !bytes.Equal(note, noteBegun), errors.Join(err, v.Close())
}

func newAccount() *mailrow.Account {
	a := &mailrow.Account{}
	_, _ = rand.Read(a.Nonce[:]) // it never fails
	return a
}

// loadAccount has the turn know the actor's account.
func (c *Context) loadAccount() error {
	if c.account != nil {
		return nil
	}
	out := &c.life.out
	if out.account == nil {
		value, err := c.life.actor.Get(c, mailrow.AccountKey(), nil)
		if errors.Is(err, actorstore.ErrNotFound) {
			c.account = newAccount()
			return nil
		}
		if err != nil {
			return err
		}
		a, err := mailrow.ParseAccount(value)
		if err != nil {
			return err
		}
		out.account = &a
	}
	own := *out.account
	c.account = &own
	return nil
}

// stageAccount counts what the turn sends.
func (c *Context) stageAccount() {
	out := &c.life.out
	if len(c.letters) == 0 || out.account != nil && *out.account == *c.account {
		return
	}
	c.Batch().Put(mailrow.AccountKey(), c.account.Append(nil))
	c.Batch().OnCommit(func() { out.account = c.account })
}
