package engine

import (
	"context"
	"io"
	"slices"
	"time"
)

// give gives n bytes back.
func (a *account) give(n int64) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.closed {
		return
	}
	a.pay(-n)
	a.b.admit()
}

// lend says that n bytes of the account wait to be written to a runner.
func (a *account) lend(n int64) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.lent += n
}

// repaid says that n bytes that were lent are written, or won't be. They are given back unless they are kept.
func (a *account) repaid(n int64, keep bool) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.lent -= n
	if a.room != nil {
		close(a.room)
		a.room = nil
	}
	if !keep || a.closed {
		a.pay(-min(n, a.held))
	}
	a.forget()
	a.b.admit()
}

// drain waits until at most n bytes are lent.
func (a *account) drain(ctx context.Context, n int64) {
	for {
		a.b.mu.Lock()
		if a.lent <= n {
			a.b.mu.Unlock()
			return
		}
		if a.room == nil {
			a.room = make(chan struct{})
		}
		room := a.room
		a.b.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return
		}
	}
}

// whole says that what is read from the client is complete: the next one may go on though a share is full.
func (a *account) whole() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.b.over == a {
		a.b.over = nil
		a.b.admit()
	}
}

// await says that the engine waits for the client, which is sending or taking a piece, or that it doesn't any more.
func (a *account) await(what int, waits bool) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.since[what] = time.Time{}
	if waits && !a.closed {
		a.since[what] = time.Now()
	}
}

// read reads from r, which is the client, until its end. hint is how many bytes there may be, or less than 0. What was read is the account's, and beside
// it as many bytes as beside says.
func (a *account) read(ctx context.Context, r io.Reader, hint, beside int64) ([]byte, error) {
	defer a.whole()
	var b []byte
	for {
		step := min(piece, max(512, len(b)))
		if rest := hint - int64(len(b)); rest > 0 {
			step = int(min(piece, rest))
		}
		if err := a.take(ctx, int64(step)+beside); err != nil {
			return nil, err
		}
		beside = 0
		b = slices.Grow(b, step)
		at := len(b)
		for len(b) < at+step {
			a.await(sending, true)
			n, err := r.Read(b[len(b) : at+step])
			a.await(sending, false)
			b = b[:len(b)+n]
			if err != nil {
				a.give(int64(at + step - len(b)))
				if err == io.EOF {
					return b, nil
				}
				return nil, err
			}
		}
	}
}
