package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/remote"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// An exchange is a request of a client with its answer, as far as it takes memory and time: its body and what is written to the
// client are pieces, each with a deadline, and its bytes are those of an account.
type exchange struct {
	e       *core
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	ctx     context.Context // ends with the request, and when the client is cut off
	cancel  context.CancelCauseFunc
	account *account

	late      *time.Timer     // ends the exchange if the answer doesn't begin
	start     rp.RequestStart // what the actor is sent
	forgotten bool            // it can't be sent again
}

const (
	// bodyTimeout is how long the body of a request may take.
	bodyTimeout = time.Minute
	// maxRepeated bounds the bodies that are kept until the actor has answered, for another attempt.
	maxRepeated = 1 << 20
)

// newExchange returns the exchange of a request for an actor, or for none. The caller closes it.
func newExchange(e *core, w http.ResponseWriter, r *http.Request, id actorstore.ID) *exchange {
	x := &exchange{e: e, w: w, r: r, control: http.NewResponseController(w)}
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	x.account = e.budget.open(remote.Addr(r), id, func() {
		x.cancel(errBusy)
		past := time.Unix(1, 0)
		_ = x.control.SetReadDeadline(past) // the connection is of no use without deadlines
		_ = x.control.SetWriteDeadline(past)
	})
	return x
}

func (x *exchange) close() {
	x.account.close()
	x.cancel(nil)
}

// cause returns why the exchange has ended, if it has, else err.
func (x *exchange) cause(err error) error {
	if err != nil && x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	return err
}

// body reads the body of the request, which may have limit bytes.
func (x *exchange) body(limit int64) ([]byte, error) {
	if x.r.ContentLength == 0 {
		_ = x.control.SetReadDeadline(time.Time{}) // what is read from now on is the end of the client
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, bodyTimeout)
	defer cancel()
	until, _ := ctx.Deadline()
	b, err := x.account.read(ctx, timedBody{http.MaxBytesReader(x.w, x.r.Body, limit), x, until}, x.r.ContentLength, 0)
	if err == nil {
		_ = x.control.SetReadDeadline(time.Time{})
		return b, nil
	}
	x.w.Header().Set("Connection", "close") // else the server would read the rest
	tooLarge, own := (*http.MaxBytesError)(nil), (*apiError)(nil)
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLong
	case errors.Is(context.Cause(x.ctx), errBusy), errors.As(err, &own):
		return nil, errBusy
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	}
	return nil, invalid("the body is cut off")
}

// errSlowBody says that a body hasn't come in time.
var errSlowBody = newError(http.StatusRequestTimeout, "guard", "request_timeout", "Timed out waiting for the body of the request.")

// A timedBody is a body of which each piece must come in time, and the whole until some time.
type timedBody struct {
	io.Reader
	x     *exchange
	until time.Time
}

// Read implements io.Reader.
func (t timedBody) Read(p []byte) (int, error) {
	by := time.Now().Add(writeTimeout)
	if t.until.Before(by) {
		by = t.until
	}
	_ = t.x.control.SetReadDeadline(by)
	if err := t.x.ctx.Err(); err != nil { // it may have ended before the deadline was set
		return 0, err
	}
	return t.Reader.Read(p)
}

// write writes to the client, at once if flush is set. The end of the answer has the deadline of the last piece.
func (x *exchange) write(b []byte, flush bool) (err error) {
	for more := true; more && err == nil; more = len(b) > 0 {
		data := b[:min(piece, len(b))]
		b = b[len(data):]
		_ = x.control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := x.ctx.Err(); err != nil { // it may have ended before the deadline was set
			return err
		}
		x.account.await(taking, true)
		if _, err = x.w.Write(data); err == nil && flush && len(b) == 0 {
			_ = x.control.Flush() // what can't be flushed is sent later
		}
		x.account.await(taking, false)
	}
	return err
}

// forget lets a large body go, which the runner has been sent.
func (x *exchange) forget() {
	if n := int64(len(x.start.Body)); n > maxRepeated {
		x.start.Body, x.forgotten = nil, true
		x.account.give(n)
	}
}
