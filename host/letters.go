package host

import (
	"crypto/rand"
	"math"
	"strings"
	"time"

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

func newAccount() *mailrow.Account {
	a := &mailrow.Account{}
	_, _ = rand.Read(a.Nonce[:]) // it never fails
	return a
}
