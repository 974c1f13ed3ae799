package history

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// everyWait are waits of each kind, in which each field has a value.
var everyWait = []Wait{
	{WaitTimer, "nap", 1, 2, nil, ""},
	{WaitAttempt, "pay", 3, 4, nil, "busy"},
	{WaitMessage, "ask", 5, 6, []string{"no", "yes"}, ""},
	{WaitRun, "", 0, 0, nil, ""},
	{WaitResume, "print", 7, 0, nil, "no paper"},
}

// TestWaitsGolden: the bytes of waits are these.
func TestWaitsGolden(t *testing.T) {
	const want = "0100" + "05" +
		"02036e6170" + "0100000000000000" + "0200000000000000" + "00" + "00" +
		"0303706179" + "0300000000000000" + "0400000000000000" + "00" + "0462757379" +
		"010361736b" + "0500000000000000" + "0600000000000000" + "02026e6f03796573" + "00" +
		"0000" + "0000000000000000" + "0000000000000000" + "00" + "00" +
		"04057072696e74" + "0700000000000000" + "0000000000000000" + "00" + "086e6f207061706572"
	if got := hex.EncodeToString(appendWaits(nil, everyWait)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, err := parseWaits(unhex(t, want))
	if must(t, err); !reflect.DeepEqual(got, everyWait) {
		t.Errorf("got %+v", got)
	}
	for n := range len(want) / 2 {
		if _, err := parseWaits(unhex(t, want[:2*n])); !errors.Is(err, errCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestWaitsRoundTrip: waits come back as they were stored.
func TestWaitsRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 3))}
	for range 300 {
		waits := r.waits()
		got, err := parseWaits(appendWaits(nil, waits))
		if must(t, err); !reflect.DeepEqual(got, waits) {
			t.Errorf("got %+v, want %+v", got, waits)
		}
	}
}

func FuzzParseWaits(f *testing.F) {
	f.Add(appendWaits(nil, everyWait))
	f.Fuzz(func(t *testing.T, b []byte) {
		waits, err := parseWaits(b)
		if err != nil {
			return
		}
		if again := appendWaits(nil, waits); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}

// TestSetWaits: what can't be stored of waits is made so, a wait that goes on began when it began, and damaged waits are
// recorded anew.
func TestSetWaits(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	name := []string{"a\xff"}
	long := []Wait{{For: WaitMessage, Path: "m", Since: 5, Names: name}, {For: WaitAttempt, Path: "s", Since: 5, Until: 9, Error: strings.Repeat("é", 200)}}
	r.h.Waiting().Began(long)
	for range 2 {
		r.commit(func(tx *Tx) {
			must(t, tx.SetInput([]byte("in")))
			must(t, tx.SetState(Sleeping))
			must(t, tx.SetWaits(long))
		})
		r.verify("set")
		waits := r.h.Waiting().Waits()
		if !reflect.DeepEqual(waits, long) || waits[0].Path != "s" || waits[1].Names[0] != "a?" || len(waits[0].Error) != 256 || name[0] != "a\xff" {
			t.Errorf("got %+v, want %+v", waits, long)
		}
		later := []Wait{{For: WaitMessage, Path: "m", Since: 8, Names: []string{"a\xff"}}, {For: WaitResume, Path: "s", Since: 8}}
		if r.h.Waiting().Began(later); later[0].Since != 5 || later[1].Since != 8 {
			t.Errorf("they began at %d and %d", later[0].Since, later[1].Since)
		}
		r.h.Close()
		r.h = nil
		must(t, r.Actor.Put(ctx, appendFieldKey(layout, nil, fieldWaits), []byte{1, 0, 2, 0}))
		r.reopen()
		if waits := r.h.Waiting().Waits(); len(waits) != 1 || waits[0].For != WaitRun {
			t.Errorf("damaged waits: %+v", waits)
		}
	}
}

// TestManyWaits: waits that are too many for the store become one of each kind, with all names and the earliest time.
func TestManyWaits(t *testing.T) {
	var waits []Wait
	for i := range 1000 {
		waits = append(waits, Wait{For: WaitMessage, Path: fmt.Sprint("m", i), Since: Millis(2000 - i), Until: Millis(5000 - i), Names: []string{fmt.Sprint("n", i%3)}},
			Wait{For: WaitTimer, Path: fmt.Sprint("t", i), Since: 3, Until: Millis(i)})
	}
	r := newRig(t, Options{}, batch.Limits{ValueSize: 4 << 10})
	r.commit(func(tx *Tx) {
		must(t, tx.SetWaits(waits))
	})
	want := []Wait{
		{WaitMessage, "m0", 1001, 4001, []string{"n0", "n1", "n2"}, ""},
		{WaitTimer, "t0", 3, 1, nil, ""},
	}
	if got := r.h.Snapshot().Rested; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(waits[0].Names) != 1 {
		t.Errorf("the names of the caller are %q now", waits[0].Names)
	}
}
