package client

import "sync"

// Bounds of the events that wait for a program.
const (
	maxEvents     = 256
	maxEventBytes = 4 << 20
)

// A program is what the functions of a program are told, one after the other.
type program struct {
	more chan struct{} // has room for one

	mu     sync.Mutex
	queue  []news // +checklocks:mu
	events int    // in queue  +checklocks:mu
	bytes  int    // of them  +checklocks:mu
	closed bool   // nothing more comes  +checklocks:mu
}

// news is something to be told. A state has no bytes.
type news struct {
	bytes int
	tell  func()
}

func newProgram() *program {
	p := &program{more: make(chan struct{}, 1)}
	go p.run()
	return p
}

// push adds something, and says whether there is room for it. Of a closed one it is left out.
func (p *program) push(bytes int, tell func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes > 0 && (p.events >= maxEvents || p.events > 0 && p.bytes+bytes > maxEventBytes) {
		return false
	}
	if p.closed {
		return true
	}
	if bytes > 0 {
		p.events++
		p.bytes += bytes
	}
	p.queue = append(p.queue, news{bytes, tell})
	p.wake()
	return true
}

// close lets it end when all is told.
func (p *program) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake()
}

func (p *program) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *program) run() {
	for range p.more {
		for {
			n, ok, over := p.take()
			if over {
				return
			}
			if !ok {
				break
			}
			n.tell()
		}
	}
}

// take takes what is to be told next; over is whether nothing comes any more.
func (p *program) take() (n news, ok, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return n, false, p.closed
	}
	n, p.queue = p.queue[0], p.queue[1:]
	if n.bytes > 0 {
		p.events--
		p.bytes -= n.bytes
	}
	return n, true, false
}
