package host

import (
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
)

// TestDeadLetterTells: a message whose handler has failed as often as it may is a dead letter with the error's code and text, the
// times of the attempts, and the actor that sent it.
func TestDeadLetterTells(t *testing.T) {
	for _, tt := range []struct {
		what string
		fail func() error
		code string
		text string
	}{
		{"an error of the actor", func() error { return &Error{Code: "sold_out", Message: "There are none left."} }, "sold_out", "There are none left."},
		{"another error", func() error { return errRefused }, codeInternal, errRefused.Error()},
		{"a panic", func() error { panic("nothing works") }, "actor_failed", "host: panic: nothing works"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			kinds := talkers()
			kinds[1].Message = func(*Context, *greenroom.Message) error { return tt.fail() }
			kinds[1].MessageNames = []string{"word"} // and no dead letters
			kinds[1].Queue.MaxReceive = 3
			bubble(t, Options{}, func(r *rig) {
				start := time.Now()
				r.call(lobby, "say", "hello")
				pass(time.Minute)
				var got []queue.Stored
				must(t, r.Store().View(r.ctx, ear.String(), func(v *greenroom.View) error {
					for m, err := range v.Messages(nil) {
						if err != nil {
							return err
						}
						got = append(got, m)
					}
					return nil
				}))
				if len(got) != 1 {
					t.Fatalf("%d messages", len(got))
				}
				m, f := got[0], got[0].Failure
				if m.Name != "word.dlq" || m.Deliveries != 3 || m.From != lobby.String() || f.Code != tt.code || f.Text != tt.text {
					t.Errorf("got %+v", m)
				}
				if at := f.Attempts; len(at) != 3 || at[1].Sub(at[0]) != time.Second || at[2].Sub(at[1]) != 2*time.Second || at[0].Sub(start) > time.Second {
					t.Errorf("attempts at %v, begun at %v", at, start)
				}
			}, kinds...)
		})
	}
}
