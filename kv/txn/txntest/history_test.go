package txntest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// parseHistory reads a history, a line NAME BEGAN-ENDED: STEP; STEP; … for each record, of a worker each.
func parseHistory(t *testing.T, text string) *history {
	t.Helper()
	h := &history{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		head, steps, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r := &record{}
		var err error
		if _, err = fmt.Sscanf(head, "%s %d-%d", &r.name, &r.began, &r.ended); err == nil {
			r.steps, err = suite.Parse(steps)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		h.did = append(h.did, []*record{r})
	}
	return h
}

// TestCheckHistory: histories that no order allows are found, each by its name in
// the literature, and serializable ones are not.
func TestCheckHistory(t *testing.T) {
	for _, tt := range []struct{ name, history, stuck string }{
		{"nothing", `end 100-101: scan nil nil = -`, ""},
		{"one after the other", `A 1-2: AppendIfFits x 1
			B 3-4: get x = "1"; AppendIfFits x 2
			end 100-101: get x = "12"`, ""},
		{"lost update", `A 1-4: get x = -; set x 1
			B 2-3: get x = -; set x 2
			end 100-101: get x = "2"`, "B"},
		{"lost update that left both", `A 1-4: get x = -; AppendIfFits x 1
			B 2-3: get x = -; AppendIfFits x 2
			end 100-101: get x = "12"`, "B"},
		{"lost blind update", `A 1-4: AppendIfFits x 1
			B 2-3: AppendIfFits x 2
			end 100-101: get x = "2"`, "end"},
		{"write skew", `A 1-4: get x = -; set y 1
			B 2-3: get y = -; set x 2
			end 100-101: get x = "2"; get y = "1"`, "B"},
		{"phantom", `A 1-4: scan a z = -; set p 1
			B 2-3: scan a z = -; set q 2
			end 100-101: scan a z = "p"="1" "q"="2"`, "B"},
		{"dirty read", `A 1-2: get x = "7"
			end 100-101: get x = -`, "A"},
		{"read of what never was", `A 1-4: AppendIfFits x 1
			B 1-4: AppendIfFits x 2
			C 1-4: get x = "2"
			end 100-101: get x = "12"`, "end"},
		{"write that no record made", `A 1-2: AppendIfFits x 1
			end 100-101: get x = "12"`, "end"},
		{"write cycle", `A 1-4: AppendIfFits x 1; AppendIfFits y 1
			B 2-3: AppendIfFits x 2; AppendIfFits y 2
			end 100-101: get x = "12"; get y = "21"`, "end"},
		{"circular information flow", `A 1-4: set x 1; get y = "2"
			B 2-3: set y 2; get x = "1"
			end 100-101: get x = "1"; get y = "2"`, "A B"},
		{"read skew", `A 1-4: get x = -; get y = "1"
			B 2-3: set x 1; set y 1
			end 100-101: get x = "1"; get y = "1"`, "A"},
		{"stale read", `A 1-2: set x 1
			B 3-4: get x = -
			end 100-101: get x = "1"`, "B"},
		{"late read", `A 1-4: set x 1
			B 3-5: get x = -
			end 100-101: get x = "1"`, ""},
		{"reads own append", `A 1-2: AppendIfFits x 1; get x = "1"
			end 100-101: get x = "1"`, ""},
		{"three in a ring", `A 1-9: get x = -; set y 1
			B 2-9: get y = -; set z 2
			C 3-9: get z = -; set x 3
			end 100-101: get x = "3"; get y = "1"; get z = "2"`, "B"},
		{"read-only anomaly", `withdraw 1-9: get c = -; get s = -; set c "-11"
			deposit 2-3: get s = -; set s 20
			report 4-5: get c = -; get s = "20"
			end 100-101: get c = "-11"; get s = "20"`, "report"},
	} {
		err := parseHistory(t, tt.history).check()
		if (err == nil) != (tt.stuck == "") {
			t.Errorf("%s: got error %v", tt.name, err)
		}
		for name := range strings.FieldsSeq(tt.stuck) {
			if !strings.Contains(fmt.Sprint(err), "\n"+name+" ") {
				t.Errorf("%s: got error %v, which should name %s", tt.name, err, name)
			}
		}
	}
}
