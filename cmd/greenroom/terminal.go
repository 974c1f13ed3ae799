package main

import (
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// A terminalSource reads lines that a person edits. The terminal is in raw mode
// only while a line is being edited: while a statement runs, Ctrl-C is a signal.
type terminalSource struct {
	term *term.Terminal
	keys *keyReader
	out  io.Writer
	tty  *os.File // nil if the input isn't a terminal of the system

	mu    sync.Mutex
	saved *term.State // what to go back to, nil when not in raw mode  +checklocks:mu
}

// newTerminalSource edits lines on rw. tty is rw's terminal, whose modes are
// switched; nil when there are none, as in a test.
func newTerminalSource(rw io.ReadWriter, tty *os.File, history term.History) *terminalSource {
	keys := &keyReader{r: rw}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, rw}, "")
	t.History = history
	return &terminalSource{term: t, keys: keys, out: rw, tty: tty}
}

func (s *terminalSource) next(ctx context.Context, prompt string) (string, error) {
	s.term.SetPrompt(prompt)
	if err := s.raw(); err != nil {
		return "", err
	}
	line, err := await(ctx, s.term.ReadLine)
	if rerr := s.restore(); err == nil {
		err = rerr
	}
	if err != nil {
		// The end, with the cursor behind the prompt.
		if _, werr := io.WriteString(s.out, "\r\n"); err == io.EOF && werr != nil {
			err = werr
		}
		return "", err
	}
	if s.keys.interrupted() {
		return "", errDropLine
	}
	return line + "\n", nil
}

// terminalWidth returns how many columns a terminal has, 0 if it doesn't say.
func terminalWidth(tty *os.File) int {
	w, _, err := term.GetSize(int(tty.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// raw switches to raw mode and learns how wide the terminal is now.
func (s *terminalSource) raw() error {
	if s.tty == nil {
		return nil
	}
	fd := int(s.tty.Fd())
	if w, h, err := term.GetSize(fd); err == nil && w > 0 {
		if err := s.term.SetSize(w, h); err != nil {
			return err
		}
	}
	saved, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = saved
	return nil
}

// restore ends raw mode. It may be called more than once.
func (s *terminalSource) restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved == nil {
		return nil
	}
	saved := s.saved
	s.saved = nil
	return term.Restore(int(s.tty.Fd()), saved)
}

// Keys as bytes.
const (
	keyInterrupt = 0x03 // Ctrl-C
	giveUpLine   = "\x05\x15\r"
)

// A keyReader makes Ctrl-C end the line that is being edited, empty. The editor
// would take it for the end of the input, and would see it again for ever. What
// it gets instead is: to the end of the line, delete to its start, enter.
type keyReader struct {
	r       io.Reader
	pending []byte // read, but not delivered
	giveUp  string // what of giveUpLine is still to be delivered
	hit     bool   // all of giveUpLine was delivered
}

// interrupted says whether the line that was read last ended with Ctrl-C.
func (k *keyReader) interrupted() bool {
	hit := k.hit
	k.hit = false
	return hit
}

// Read never delivers keys from before and after a Ctrl-C together, so that the
// line that ends with it is known.
func (k *keyReader) Read(p []byte) (int, error) {
	if k.giveUp != "" {
		n := copy(p, k.giveUp)
		k.giveUp = k.giveUp[n:]
		k.hit = k.giveUp == ""
		return n, nil
	}
	if len(k.pending) == 0 {
		buf := make([]byte, len(p))
		n, err := k.r.Read(buf)
		if n == 0 {
			return 0, err
		}
		k.pending = buf[:n] // a read error comes again
	}
	for i, c := range k.pending {
		if c != keyInterrupt {
			continue
		}
		if i > 0 {
			return k.deliver(p, i), nil
		}
		k.pending = k.pending[1:]
		k.giveUp = giveUpLine
		return k.Read(p)
	}
	return k.deliver(p, len(k.pending)), nil
}

func (k *keyReader) deliver(p []byte, n int) int {
	n = copy(p, k.pending[:n])
	k.pending = k.pending[n:]
	return n
}

// interactiveInput returns the editor of a terminal, with a history that outlives
// the program where that can be kept. Otherwise warning says why, and the history
// is the session's own.
func interactiveInput(in, out *os.File, getenv func(string) string) (src *terminalSource, warning error) {
	h := &history{}
	path, err := historyPath(getenv)
	if err == nil {
		err = h.open(path)
	}
	rw := struct {
		io.Reader
		io.Writer
	}{in, out}
	return newTerminalSource(rw, in, h), err
}
