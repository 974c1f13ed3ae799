package s3

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// patient waits between the attempts of one operation.
type patient struct {
	patience time.Duration
	since    time.Time
	attempts int
}

// firstPause and maxPause bound the pauses between attempts, which double from one to the next.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// wait returns nil after a pause, when another attempt may be made after one that failed with err. Else it returns the error of
// the operation.
func (p *patient) wait(ctx context.Context, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	if !temporary(err) {
		return err
	}
	pause := min(firstPause<<min(p.attempts, 10), maxPause)
	pause = pause/2 + rand.N(pause/2+1)
	p.attempts++
	if time.Since(p.since)+pause > p.patience {
		return err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// progress lets the patience begin again.
func (p *patient) progress() { p.since, p.attempts = time.Now(), 0 }

// An attempt has a minute, and a second for each 128 KiB that it sends.
const (
	attemptTime = time.Minute
	attemptRate = 128 << 10
)

// request makes one attempt, of which the server must answer in time. size is how many bytes it sends.
func request(ctx context.Context, size int64, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTime+time.Duration(size/attemptRate)*time.Second, errSlow)
	defer cancel()
	return ofTime(ctx, do(ctx))
}

// ofTime is err, or errSlow if that is why ctx ended.
func ofTime(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	return err
}

// body is what one attempt sends. The client may read it still when the attempt has ended, which close prevents.
type body struct {
	mu    sync.Mutex
	in    *io.SectionReader // +checklocks:mu
	ended bool              // +checklocks:mu
	err   error             // +checklocks:mu
}

// newBody returns a body that is read from its start.
func newBody(in *io.SectionReader) *body { return &body{in: io.NewSectionReader(in, 0, in.Size())} }

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := b.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = &finalError{err}
		err = b.err
	}
	return n, err
}

// end ends the reading, and returns the error of the caller's reader, or else that of the attempt.
func (b *body) end(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.err != nil {
		return b.err
	}
	return err
}
