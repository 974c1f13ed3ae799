package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

func (m *model) enqueue(mb *modelBatch) {
	s := Send{Name: m.name(), Body: fmt.Sprint("body ", m.rng.IntN(1e6))}
	if m.rng.IntN(4) == 0 {
		s.Delay = time.Duration(1+m.rng.IntN(20)) * time.Second
	}
	if m.rng.IntN(3) == 0 && ranks() {
		s.Priority = []int{MinPriority, -1, 1, MaxPriority}[m.rng.IntN(4)]
	}
	if m.rng.IntN(3) == 0 && ranks() {
		s.Debounce = &Debounce{Key: fmt.Sprint(m.rng.IntN(2)), Max: time.Duration(m.rng.IntN(3)) * 15 * time.Second}
	}
	if m.rng.IntN(3) == 0 {
		s.Key = fmt.Sprint("key ", m.rng.IntN(4))
	}
	id, err := m.r.q.In(&mb.b).Enqueue(s)
	m.note("enqueue %v: %v, %v", s, id, err)
	if s.Key != "" && m.duplicate(mb, s.Name+s.Key, id, err) {
		return
	}
	msg := &modelMessage{id: id, name: s.Name, body: s.Body.(string), priority: s.Priority, created: time.Now()}
	if s.Debounce != nil {
		msg.debounce = s.Name + "/" + s.Debounce.Key
		if m.replaced(mb, msg, s, err) {
			return
		}
	}
	if err != nil {
		if !errors.Is(err, ErrFull) {
			m.r.t.Error(err)
		}
		return
	}
	m.takeKey(mb, &s, id)
	if m.seen[id] {
		m.r.t.Errorf("id %s was given before", id)
	}
	m.seen[id] = true
	msg.hide(&s)
	mb.added = append(mb.added, msg)
	mb.commit = append(mb.commit, func() { m.messages[id] = msg })
}

// hide hides a message for its delay, and not beyond what its Debounce says.
func (msg *modelMessage) hide(s *Send) {
	msg.hidden = time.Time{}
	if s.Delay > 0 {
		msg.hidden = time.Now().Add(s.Delay)
	}
	if d := s.Debounce; d != nil && d.Max > 0 && msg.hidden.After(msg.created.Add(d.Max)) {
		if msg.hidden = msg.created.Add(d.Max); !msg.hidden.After(time.Now()) {
			msg.hidden = time.Time{}
		}
	}
}

// replaced says whether the message that was enqueued has taken the place of another one, or may not, and holds that this is right.
func (m *model) replaced(mb *modelBatch, newer *modelMessage, s Send, err error) bool {
	same := func(msg *modelMessage) bool { return msg.debounce == newer.debounce }
	renew := func(old, to *modelMessage) {
		wantErr(m.r.t, "replace", err, nil)
		if newer.id != old.id {
			m.r.t.Errorf("%s was enqueued, and replaces %s", newer.id, old.id)
		}
		to.body, to.priority = newer.body, newer.priority
		to.hide(&s)
		m.takeKey(mb, &s, old.id)
	}
	for _, own := range slices.Backward(mb.added) {
		if same(own) && own.by == nil {
			renew(own, own)
			return true
		}
	}
	if other := m.other(mb); other != nil && slices.ContainsFunc(other.added, same) {
		wantErr(m.r.t, "a message that another batch adds", err, ErrBusy)
		return true
	}
	var old *modelMessage
	for _, msg := range m.messages {
		if same(msg) && msg.deliveries == 0 && (old == nil || msg.id > old.id) {
			old = msg
		}
	}
	switch {
	case old == nil || old.by == mb && !slices.Contains(mb.renewed, old):
		return false
	case old.by != nil && old.by != mb:
		wantErr(m.r.t, "a message that another batch has", err, ErrBusy)
		return true
	}
	mb.claim(old)
	if !slices.Contains(mb.renewed, old) {
		mb.renewed = append(mb.renewed, old)
	}
	next := *old
	renew(old, &next)
	mb.commit = append(mb.commit, func() { old.body, old.priority, old.hidden = next.body, next.priority, next.hidden })
	return true
}

// takeKey notes that a batch is about to take the sender's key.
func (m *model) takeKey(mb *modelBatch, s *Send, id ID) {
	if s.Key != "" {
		if mb.keys == nil {
			mb.keys, mb.until = map[string]ID{}, map[string]time.Time{}
		}
		mb.keys[s.Name+s.Key], mb.until[s.Name+s.Key] = id, time.Now().Add(modelWindow)
	}
}

// duplicate says whether nothing was enqueued because of the key, and holds that this is
// right.
func (m *model) duplicate(mb *modelBatch, key string, id ID, err error) bool {
	known, taken := m.keys[key], mb.keys[key]
	over := !known.until.After(time.Now())
	if other := m.other(mb); other != nil && (other.keys[key] != 0 || over && known.id != 0 && errors.Is(err, ErrBusy)) {
		// That batch has it: it takes it, or removes what is over.
		wantErr(m.r.t, "a key that another batch has", err, ErrBusy)
		return true
	}
	want := taken
	if !over {
		want = known.id
	}
	if want != 0 && (err != nil || id != want) {
		m.r.t.Errorf("the key stands for %s, got %s, %v", want, id, err)
	}
	return want != 0
}

// other is the other batch that is open.
func (m *model) other(mb *modelBatch) *modelBatch {
	for _, o := range m.open {
		if o != mb {
			return o
		}
	}
	return nil
}

// ranks says whether messages may have priorities.
func ranks() bool { return layout != actorstore.LayoutRivetKit }

// visible returns the messages that should be handed out, in the order of their ids.
func (m *model) visible(names []string, now time.Time) (msgs []*modelMessage) {
	for _, msg := range m.messages {
		if msg.by == nil && !msg.hidden.After(now) && (len(names) == 0 || slices.Contains(names, msg.name)) {
			msgs = append(msgs, msg)
		}
	}
	slices.SortFunc(msgs, func(a, b *modelMessage) int { return cmp.Compare(a.id, b.id) })
	return msgs
}

func (m *model) receive(mb *modelBatch) {
	o := ReceiveOptions{Names: m.names(), Count: 1 + m.rng.IntN(3), AtMostOnce: m.rng.IntN(4) == 0}
	msgs, err := m.r.q.In(&mb.b).Receive(ctx, &o)
	m.note("receive %+v: %v, %v", o, ids(msgs), err)
	must(m.r.t, err)
	want := m.visible(o.Names, time.Now())
	for _, msg := range slices.Concat(mb.added, mb.claimed) {
		if (msg.by == nil && msg.hidden.IsZero() || msg.again > 0) && !slices.Contains(want, msg) &&
			(len(o.Names) == 0 || slices.Contains(o.Names, msg.name)) {
			want = append(want, msg)
		}
	}
	own := func(msg *modelMessage) int { return min(slices.Index(mb.added, msg), 0) } // -1: it isn't
	slices.SortFunc(want, func(a, b *modelMessage) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(own(a), own(b)), cmp.Compare(a.id, b.id))
	})
	want = want[:min(len(want), o.Count)]
	if len(msgs) != len(want) {
		m.r.t.Errorf("got %v, want %d messages", ids(msgs), len(want))
		return
	}
	for i, msg := range want {
		got := msgs[i]
		if got.ID != msg.id || got.Name != msg.name || text(m.r.t, got.Body) != msg.body || got.Priority != msg.priority || got.Deliveries != max(msg.deliveries, msg.again)+1 {
			m.r.t.Errorf("got %+v, want %+v", got, msg)
		}
		mb.claim(msg)
		if o.AtMostOnce {
			mb.commit = append(mb.commit, func() { m.remove(msg) })
			continue
		}
		r := got.Receipt()
		if r.Nonce == 0 {
			m.r.t.Errorf("the receipt %s of a batch is as good as that of a lease", r)
		}
		m.receipts = append(m.receipts, modelReceipt{r, m.openings}) // which may be void in the end
		mb.commit = append(mb.commit, func() {
			msg.deliveries, msg.leased, msg.hidden, msg.nonce = r.Deliveries, true, got.Until, r.Nonce
			m.receipts = append(m.receipts, modelReceipt{Receipt: Receipt{ID: r.ID, Deliveries: r.Deliveries}})
		})
		if m.rng.IntN(3) == 0 {
			m.note("in the same batch:")
			then, err := m.act(mb, r, msg, r.Deliveries)
			must(m.r.t, err)
			mb.commit = append(mb.commit, then)
		}
	}
}

func (m *model) remove(msg *modelMessage) {
	delete(m.messages, msg.id)
	m.gone[msg.id] = true
}

// find returns a message that is stored, or that mb adds.
func (m *model) find(mb *modelBatch, id ID) *modelMessage {
	if i := slices.IndexFunc(mb.added, func(a *modelMessage) bool { return a.id == id }); i >= 0 {
		return mb.added[i]
	}
	return m.messages[id]
}

func (m *model) delete(mb *modelBatch) {
	id := ID(1 + m.rng.IntN(len(m.messages)+len(m.gone)+2))
	err := m.r.q.In(&mb.b).Delete(id)
	m.note("delete %s: %v", id, err)
	msg := m.find(mb, id)
	switch {
	case msg == nil:
		wantErr(m.r.t, "delete", err, ErrGone)
	case msg.by == mb && err != nil: // it may be gone for mb
		wantErr(m.r.t, "delete", err, ErrGone)
	case msg.by != nil && msg.by != mb:
		wantErr(m.r.t, "delete", err, ErrBusy)
	default:
		must(m.r.t, err)
		mb.claim(msg)
		mb.renewed = slices.DeleteFunc(mb.renewed, func(o *modelMessage) bool { return o == msg })
		mb.commit = append(mb.commit, func() { m.remove(msg) })
	}
}

// settle completes, gives back or extends by one of the receipts that were given out.
func (m *model) settle(mb *modelBatch) {
	if len(m.receipts) == 0 {
		return
	}
	r := m.receipts[len(m.receipts)-1-m.rng.IntN(min(8, len(m.receipts)))]
	msg := m.find(mb, r.ID)
	now := time.Now()
	var want error
	switch {
	case msg == nil:
		want = ErrGone
	case msg.by != nil && msg.by != mb:
		want = ErrBusy
	case msg.by == mb: // what mb has done to it is not in the model yet
		return
	case !msg.leased || msg.deliveries != r.Deliveries || !msg.hidden.After(now),
		r.Nonce != 0 && (r.Nonce != msg.nonce || r.opening != m.openings):
		want = ErrLeaseOver
	}
	deliveries := r.Deliveries
	if msg != nil {
		deliveries = msg.deliveries
	}
	then, err := m.act(mb, r.Receipt, msg, deliveries)
	if want != nil || err != nil {
		wantErr(m.r.t, "settle", err, want)
		return
	}
	again := msg.again
	mb.claim(msg)
	msg.again = again
	mb.commit = append(mb.commit, then)
}

// act completes, gives back or extends by a receipt, and returns what follows for the
// message, nil for none, when that has been handed out so often.
func (m *model) act(mb *modelBatch, r Receipt, msg *modelMessage, deliveries uint32) (then func(), err error) {
	now := time.Now()
	delay := time.Duration(m.rng.IntN(3)) * 5 * time.Second
	what := "complete"
	switch m.rng.IntN(3) {
	case 0:
		err, then = m.r.q.In(&mb.b).Complete(r, nil), func() { m.remove(msg) }
	case 1:
		what = "nack"
		why := []error{nil, errors.New("why"), Permanent(errors.New("why"))}[m.rng.IntN(3)]
		what += fmt.Sprintf(" with %v", why)
		err = m.r.q.In(&mb.b).Nack(ctx, r, delay, why)
		var dead ID
		switch {
		case err != nil || msg == nil:
		case (deliveries >= modelReceives || errkind.IsPermanent(why)) && len(msg.name) == 1:
			dead = m.r.q.Stats().Next - 1
		case delay == 0:
			defer func() { msg.again = deliveries }()
		}
		then = func() {
			if dead != 0 {
				m.die(msg, dead)
				return
			}
			msg.leased, msg.hidden = false, now.Add(delay)
		}
	default:
		what = "extend"
		err = m.r.q.In(&mb.b).Extend(ctx, r, delay+time.Second)
		then = func() { msg.hidden = now.Add(delay + time.Second) }
	}
	m.note("%s %s, %v: %v", what, r, delay, err)
	return then, err
}

// die moves a message to its dead-letter name.
func (m *model) die(msg *modelMessage, dead ID) {
	m.remove(msg)
	m.messages[dead] = &modelMessage{id: dead, name: msg.name + ".dlq", body: msg.body, priority: msg.priority, deliveries: msg.deliveries}
}

// bury lays aside what the alarm should have, in the order in which the leases ended,
// behind all others.
func (m *model) bury() {
	now := time.Now()
	dying := m.visible([]string{"a", "b", "c"}, now)
	dying = slices.DeleteFunc(dying, func(msg *modelMessage) bool { return msg.deliveries < modelReceives })
	slices.SortStableFunc(dying, func(a, b *modelMessage) int { return a.dies().Compare(b.dies()) })
	for i, msg := range dying {
		m.die(msg, m.r.q.Stats().Next-ID(len(dying)-i))
	}
}

// compare holds what is in memory against the model.
func (m *model) compare() {
	q := m.r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, msg := range m.messages {
		it := q.index.byID[id]
		if it == nil {
			m.r.t.Errorf("message %s is lost", id)
			continue
		}
		if visible := !msg.hidden.After(time.Now()); it.line.name != msg.name || it.deliveries != msg.deliveries || (it.state == ready) != visible {
			m.r.t.Errorf("message %s is %+v, want %+v", id, it, msg)
		}
	}
	if n := len(q.index.byID); n != len(m.messages) {
		m.r.t.Errorf("%d messages, want %d", n, len(m.messages))
	}
}
