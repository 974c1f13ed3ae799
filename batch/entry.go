package batch

// A Gate counts the commits that are under way with changes of one owner of participants, so that the
// owner is closed when they are over. Enter reports false, and counts nothing, when no more may begin; Leave
// undoes one Enter. Both are safe for concurrent use.
type Gate interface {
	Enter() bool
	Leave()
}

// An Entry is one participant's place inside a Gate, for as long as a commit of its batch is under
// way. The zero Entry is outside. It is the participant's, and is used under the store's commit lock alone.
type Entry struct {
	gate Gate // nil outside
}

// Enter is called by Late of the participant that has e. It has the gate count the commit of b until
// that is over: after Landed of the participant, before its Failed, or when the batch is taken back to its
// mark. first says that it wasn't inside: Late begins anew, whatever an earlier commit of b has left.
// If the gate is closed it isn't entered, and open is false.
func (e *Entry) Enter(b *Batch, g Gate) (first, open bool) {
	if e.gate != nil {
		return false, true
	}
	if !g.Enter() {
		return false, false
	}
	e.gate = g
	b.Enlist(e, (*leaver)(e))
	return true, true
}

// A leaver is the participant by which an Entry is told that the commit is over.
type leaver Entry

func (l *leaver) Late(*Batch) error { return nil }

func (l *leaver) Landed() {
	g := l.gate
	l.gate = nil
	g.Leave()
}

func (l *leaver) Failed(error, bool) { l.Landed() }
