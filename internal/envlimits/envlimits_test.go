package envlimits

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		text       string
		open, want int
		fails      bool
	}{
		{text: "", want: 0},
		{text: "0", want: 0},
		{text: "1", want: 1},
		{text: "7", want: 7},
		{text: "7", open: 3, want: 3},
		{text: "7", open: Unlimited, want: Unlimited},
		{text: "one", fails: true},
		{text: "-1", fails: true},
		{text: "1.5", fails: true},
		{text: "99999999999", fails: true},
	} {
		t.Setenv(AtomicBatches, tt.text)
		before := batch.Limits{Entries: 9, AtomicBatches: tt.open}
		got, err := Apply(before)
		want := before
		want.AtomicBatches = tt.want
		if tt.fails {
			if err == nil {
				t.Errorf("%q: no error", tt.text)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q over %d: got %+v, %v, want %+v", tt.text, tt.open, got, err, want)
		}
	}
}
