package engine_test

import (
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// check looks at what is stored after the end of the process. Nothing may be wrong with it, and each actor must be in the index no
// later than it must be started. One whose end was acknowledged is gone if an engine had time for that, and else its record says that
// it is to be.
func (s *script) check(e kv.Engine, hadTime bool) {
	s.Helper()
	store, err := actorstore.Open(s.Context(), e, &actorstore.Options{ReadOnly: true})
	must(s, err)
	defer func() { must(s, store.Close()) }()
	for f, err := range store.Check(s.Context()) {
		if err != nil || !f.Harmless {
			s.Errorf("%v %v", f, err)
		}
	}
	wakes := map[string]time.Time{}
	for w, err := range store.Wakes(s.Context(), time.Now().Add(24*time.Hour), false) {
		must(s, err)
		wakes[w.ID.String()] = w.At
	}
	for key, a := range s.actors {
		at, ok := wakes[a.id]
		switch {
		case a.gone && ok && (hadTime || !s.isDoomed(store, a)):
			s.Errorf("%s is gone, and is to be started at %v", key, at)
		case !a.doomed && !a.wakeBy.IsZero() && (!ok || at.After(a.wakeBy)):
			s.Errorf("%s is to be started at %v, not by %v", key, at, a.wakeBy)
		}
	}
}

// isDoomed reports whether the record of an actor says that it is to be destroyed.
func (s *script) isDoomed(store *actorstore.Store, a *known) bool {
	id, err := actorstore.ParseID(a.id)
	must(s, err)
	v, err := store.View(s.Context(), id)
	must(s, err)
	value, err := v.Get(s.Context(), rivetstore.RecordKey(), nil)
	must(s, err)
	rec, err := rivetstore.ParseRecord(value)
	must(s, err)
	must(s, v.Close())
	return rec.Doomed
}

// verify opens an engine on e, and looks for all that was acknowledged. The engine may fail once, or end, as arm
// says, which may be nil. Its runner is another program.
func (s *script) verify(e kv.Engine, arm func(v *script)) {
	s.Helper()
	pass(5 * time.Minute) // the lease of the process that has ended passes
	s.check(e, false)
	v := newScript(s.TB, e)
	v.version = s.version
	if arm != nil {
		arm(v)
	}
	s.verifyWith(v, e)
}

// verifyTakenOver is verify, but the runner is the program of s, which has its actors still.
func (s *script) verifyTakenOver(e kv.Engine, arm func(v *script)) {
	s.Helper()
	pass(time.Second)
	s.check(e, false)
	v := newScript(s.TB, e)
	v.version = s.version
	v.lives = s.p
	if arm != nil {
		arm(v)
	}
	s.verifyWith(v, e)
}

// verifyWith has v look for all that was acknowledged.
func (s *script) verifyWith(v *script, e kv.Engine) {
	s.Helper()
	if !v.begin() {
		return
	}
	if v.lives != nil {
		pass(40 * time.Second) // an actor that the runner wasn't told to start is told to stop first
	}
	if pass(slack); !v.dead.Load() {
		s.verifyMessages(v)
	}
	for key, a := range s.actors {
		v.actors[key] = a
		if !v.dead.Load() {
			s.verifyActor(v, key, a)
		}
	}
	if s.namespace && !v.dead.Load() {
		v.ask("GET", "/actors?name=x&namespace=n", "", "")
	}
	if !v.dead.Load() {
		v.makeNamespace()
		v.create("kept")
	}
	if a, b := s.actors["kept"], v.actors["kept"]; a != nil && a.id != b.id {
		s.Error("kept is another actor")
	}
	v.end()
	v.check(e, !v.dead.Load())
}

// verifyMessages looks whether the engine of v has sent again what the runner of s hasn't acknowledged.
func (s *script) verifyMessages(v *script) {
	s.Helper()
	came := v.deliveredSince(0)
	if s.p == nil {
		return
	}
	for d, index := range s.deliveredSince(0) {
		if !s.failed[d.tunnel] && index > s.acked[d.tunnel] && came[d] != index {
			s.Errorf("message %s isn't sent again", d.text)
		}
	}
}

// verifyActor looks for an actor in the engine of v.
func (s *script) verifyActor(v *script, key string, a *known) {
	s.Helper()
	due := !a.wakeBy.IsZero() && a.wakeBy.Before(time.Now())
	text, ok := v.ask("GET", "/actors?actor_ids="+a.id, "", "")
	gone := strings.Contains(text, `"actors":[]`)
	switch {
	case !ok:
	case gone:
		if !a.doomed {
			s.Errorf("%s isn't there: %s", key, text)
		}
	case a.gone:
		s.Errorf("%s is gone, and there is %s", key, text)
	case due && !a.doomed && !v.runs(a):
		s.Errorf("%s isn't started", key)
	default:
		v.awake(key)
		v.look(key)
	}
}
