package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// TestSQLDeadline: the process ends a statement that takes too long, whatever stands before it in its text, and rolls its transaction back. The session goes on.
func TestSQLDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t, admin.Options{TxDeadline: 300 * time.Millisecond})
	s, err := r.client.SQL(t.Context(), "room", false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const endless = "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c"
	insert := func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error { _, err := tx.Exec("insert into t values (5)"); return err })
	}
	rows := r.count()
	for _, texts := range [][]string{
		{endless}, {"begin immediate; insert into t values (2); " + endless}, {"begin immediate; insert into t values (3)", endless},
		{"insert into t values (4) returning a; select 1; begin; commit; " + endless + "; insert into t values (6)"},
	} {
		for i, text := range texts {
			ran, err := s.Run(t.Context(), text, &quiet{})
			if i < len(texts)-1 {
				if err != nil || !s.InTransaction() {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			var at *sqlrun.Error
			if !errors.As(err, &at) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "longer than 300ms, and is rolled back") || s.InTransaction() {
				t.Errorf("%s: %v, in a transaction: %v", text, err, s.InTransaction())
			} else if !strings.HasPrefix(strings.TrimSpace(text[at.Offset:]), endless) || ran != strings.Count(text[:at.Offset], ";")+1 {
				t.Errorf("%s: the error is of statement %d, at %d", text, ran, at.Offset)
			}
		}
		if strings.Contains(texts[0], "values (4)") {
			rows++ // a transaction of its own
		}
		if _, err := s.Run(t.Context(), "select 1", &quiet{}); err != nil || r.count() != rows {
			t.Errorf("after %q: %v, %d rows, want %d", texts, err, r.count(), rows)
		}
	}
	r.actor("room", insert)
	if n := r.count(); n != rows+1 {
		t.Errorf("the program's own makes them %d rows, want %d", n, rows+1)
	}
}

// A stalled sink takes no row before it is released.
type stalled struct {
	quiet
	began, release chan struct{}
}

func (s *stalled) Begin([]string)    { close(s.began) }
func (s *stalled) Row([]sqlrun.Cell) { <-s.release }

// TestSQLStalled: a client that doesn't take its rows is cut off, and the actor writes.
func TestSQLStalled(t *testing.T) {
	r := newRig(t, admin.Options{TxDeadline: 300 * time.Millisecond})
	s, err := r.client.SQL(t.Context(), "room", false)
	if err != nil {
		t.Fatal(err)
	}
	sink := &stalled{began: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), "begin immediate; with recursive c(x) as (select 1 union all select x+1 from c) select x, zeroblob(1000) from c", sink)
		ended <- err
	}()
	<-sink.began
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error { _, err := tx.Exec("insert into t values (5)"); return err })
	})
	close(sink.release)
	if err := errors.Join(<-ended, s.Close()); err == nil {
		t.Error("the client has all rows of a statement without end")
	}
	if n := r.count(); n != 2 {
		t.Errorf("there are %d rows", n)
	}
}
