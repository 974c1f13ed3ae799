package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/visible"
	"golang.org/x/term"
)

// Prompts of the interactive shell: for a new statement, and for its next line.
const (
	promptNew  = "greenroom> "
	promptMore = "      ...> "
)

// tabPatience is how long Tab may look for what a word may become.
const tabPatience = 2 * time.Second

// A terminalSource reads lines that a person edits. The terminal is in raw mode
// only while a line is being edited: while a statement runs, Ctrl-C is a signal.
type terminalSource struct {
	term *term.Terminal
	keys *keyReader
	out  io.Writer
	tty  *os.File // nil if the input isn't a terminal of the system

	// complete returns where the word that ends at pos begins, and what it may become. It is called by next; nil has Tab do nothing.
	complete func(ctx context.Context, line string, pos int) (from int, words []string, err error)
	tabs     chan *tabbed

	history *history
	typed   string    // of a statement that isn't whole
	split   *splitter // what it says of typed

	mu    sync.Mutex
	saved *term.State // what to go back to, nil when not in raw mode  +checklocks:mu
}

// newTerminalSource edits lines on rw. tty is rw's terminal, whose modes are
// switched; nil when there are none, as in a test.
func newTerminalSource(rw io.ReadWriter, tty *os.File, h *history) *terminalSource {
	keys := &keyReader{r: rw}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, rw}, "")
	t.History = h
	s := &terminalSource{term: t, keys: keys, out: rw, tty: tty, tabs: make(chan *tabbed), history: h}
	t.AutoCompleteCallback = s.tab
	return s
}

func (s *terminalSource) next(ctx context.Context, prompt string) (string, error) {
	s.term.SetPrompt(prompt)
	if err := s.raw(); err != nil {
		return "", err
	}
	if prompt == promptNew && s.typed != "" { // what came of it isn't known here
		s.history.keep(s.typed)
		s.typed = ""
	}
	line, err := s.read(ctx)
	line = s.history.unfold(line)
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
		s.typed = ""
		return "", errDropLine
	}
	if prompt == promptNew || prompt == promptMore { // else it isn't SQL
		s.note(line)
	}
	return line + "\n", nil
}

// note keeps a line in the history with those before it that it makes a statement with.
func (s *terminalSource) note(line string) {
	if s.typed == "" {
		s.split = newSplitter()
	} else {
		line = s.typed + "\n" + line
	}
	s.split.add(line[len(s.typed):] + "\n")
	for _, more := s.split.next(); more; _, more = s.split.next() {
	}
	s.typed = line
	if !s.split.pending() || line[0] == '.' {
		s.history.keep(line)
		s.typed = ""
	}
}

// read reads a line, and does what Tab asks for meanwhile. Of ctx as await.
func (s *terminalSource) read(ctx context.Context) (line string, err error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := s.term.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) {
			err = nil
		}
		done <- result{line, err}
	}()
	for {
		select {
		case r := <-done:
			return r.line, r.err
		case t := <-s.tabs:
			ctx, cancel := context.WithTimeout(ctx, tabPatience)
			t.from, t.words, t.err = s.complete(ctx, t.line, t.pos)
			cancel()
			close(t.done)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// A tabbed is one Tab.
type tabbed struct {
	line string
	pos  int
	done chan struct{} // closed when there is an answer, which is:

	from  int
	words []string
	err   error
}

// tab completes the word before the cursor as far as all that it may become are the same, and lists those if it is as far as that. Where
// no word is, Tab is a blank.
func (s *terminalSource) tab(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' || s.complete == nil {
		return "", 0, false
	}
	t := &tabbed{line: line, pos: pos, done: make(chan struct{})}
	s.tabs <- t
	<-t.done
	if t.err != nil {
		fmt.Fprintf(visible.Writer(s.term), "error: %s\n", serving.Message(t.err))
		return line, pos, true
	}
	slices.Sort(t.words)
	t.words = slices.Compact(t.words)
	word := ""
	switch n := len(t.words); {
	case n == 1:
		if word = t.words[0]; !strings.HasSuffix(word, "/") {
			word += " "
		}
	case n > 1:
		word = commonStart(t.words)
		if len(word) <= pos-t.from {
			s.list(t.words)
			return line, pos, true
		}
	case t.from == pos:
		word = " "
	default:
		return line, pos, true
	}
	return line[:t.from] + word + line[pos:], t.from + len(word), true
}

// commonStart returns what all words begin with.
func commonStart(words []string) string {
	start := words[0]
	for _, w := range words {
		for !strings.HasPrefix(w, start) {
			_, n := utf8.DecodeLastRuneInString(start)
			start = start[:len(start)-n]
		}
	}
	return start
}

// maxListed is how many words Tab lists.
const maxListed = 100

// list writes words above the line that is edited.
func (s *terminalSource) list(words []string) {
	more := ""
	if n := len(words) - maxListed; n > 0 {
		words, more = words[:maxListed], fmt.Sprintf("  … and %d more", n)
	}
	fmt.Fprintln(visible.Writer(s.term), strings.Join(words, "  ")+more)
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
	s.term.SetBracketedPasteMode(true) // in what is pasted, a tab is one
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
	s.term.SetBracketedPasteMode(false)
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
