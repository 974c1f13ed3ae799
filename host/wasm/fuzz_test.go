package wasm

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// Where the arguments of a fuzzed module are: presets first, which functions can make
// something of, and then what the fuzzer has made up.
const madeUpAt = dataAt + 8192

// A preset is an argument that makes sense to some function.
type preset struct{ at, size uint32 }

// presets returns the memory from dataAt on, with the presets and what is made up.
func presets(t testing.TB, madeUp []byte) (data []byte, at []preset) {
	t.Helper()
	for _, v := range []any{
		abi.Entry{Key: []byte("k"), Value: []byte("v")}, []byte("k"), abi.Span{}, abi.ListOptions{}, abi.Job{Action: "a", After: 1},
		abi.Statement{Query: "create table t(x unique)", Args: []abi.Raw{}}, abi.Statement{Query: "insert or rollback into t values(1)", Args: []abi.Raw{}},
		abi.Statement{Query: "select * from t", Args: []abi.Raw{}}, abi.Send{Name: "n"}, abi.Receive{Count: 3}, abi.Fault{Code: "c"},
		abi.Completion{Receipt: "1/1"}, abi.Return{Receipt: "1/1"}, abi.Record{Message: "m"}, abi.Broadcast{Event: "e"},
		abi.ConnState{ID: "x"}, abi.Parting{ID: "x"}, "x", nil, 1 << 40,
		abi.Letter{To: abi.Address{Type: "thing", Key: "third"}, Message: abi.Send{Name: "n"}},
	} {
		b, err := abi.Encode(v)
		must(t, err)
		at = append(at, preset{dataAt + uint32(len(data)), uint32(len(b))})
		data = append(data, b...)
	}
	if len(data) > madeUpAt-dataAt {
		t.Fatal("the presets take too much room")
	}
	data = append(data, make([]byte, madeUpAt-dataAt-len(data))...)
	return append(data, madeUp...), at
}

// program makes calls out of bytes, four for each: the function, whether a preset or any
// place is passed, and which.
func program(calls []byte, at []preset) (b []byte) {
	for ; len(calls) >= 4; calls = calls[4:] {
		name := imports[int(calls[0])%len(imports)]
		n := uint32(binary.BigEndian.Uint16(calls[2:]))
		ptr, size := madeUpAt+n>>8, n&0xff
		switch calls[1] % 4 {
		case 0, 1:
			p := at[int(n)%len(at)]
			ptr, size = p.at, p.size
		case 2:
			ptr, size = n*0x10001, n<<(calls[1]>>3) // anywhere, of any size
		}
		b = code(b, callTo(name, ptr, size), opDrop)
	}
	return b
}

// FuzzABI has a module call the host in any order with any arguments. Only its own turn
// may fail, and only its own keys may change.
func FuzzABI(f *testing.F) {
	f.Add([]byte{5, 0, 0, 0, 7, 0, 0, 1}, []byte{})
	all := []byte{}
	for i := range imports {
		all = append(all, byte(i), 0, 0, byte(i), byte(i), 2, 0xff, 0xff, byte(i), 3, 0, 8)
	}
	f.Add(all, []byte{0x82, 0x41, 'k', 0x41, 'v', 0xf7, 0x80, 0xb9, 0, 0})
	for p := range byte(21) { // every preset for every function
		all := []byte{}
		for i := range imports {
			all = append(all, byte(i), 0, 0, p)
		}
		f.Add(all, []byte{})
	}
	f.Fuzz(func(t *testing.T, calls, madeUp []byte) {
		if len(calls) > 4*256 || len(madeUp) > 8192 {
			return
		}
		data, at := presets(t, madeUp)
		m := &tiny{hostile: program(calls, at), data: data, hooks: []string{abi.KindDisconnect, abi.KindDestroy}}
		c := m.compile(t, Options{Interpret: true, TurnBytes: 1 << 16, TurnTimeout: time.Minute})
		r := newRig(t, c, host.Options{})
		must(t, r.Create(r.ctx, other, "something to lose"))
		before := r.rowsOf(other)
		p, err := host.Encode("p")
		must(t, err)
		_, err = r.Join(r.ctx, &host.Join{Actor: lobby, Transport: &sink{}, Parameters: p, Hibernate: true})
		must(t, err)
		_, err = invoke[any](r.ctx, r.Host, lobby, long, nil)
		if err != nil && strings.Contains(err.Error(), "recovered by wazero") {
			t.Errorf("the host has panicked: %v", err)
		}
		r.fine(lobby)
		r.fine(other)
		if after := r.rowsOf(other); after != before {
			t.Errorf("rows of another actor were\n%s\nand are\n%s", before, after)
		}
		r.close()
		must(t, c.Close(context.Background()))
	})
}

// rowsOf returns all that the engine has of an actor, in a form that can be compared.
func (r *rig) rowsOf(a host.Address) string {
	r.Helper()
	id, err := r.Store().Lower().Lookup(r.ctx, a.String())
	must(r, err)
	view, err := r.Store().Lower().View(r.ctx, id)
	must(r, err)
	var b strings.Builder
	for e, err := range view.List(r.ctx, actorstore.ListOptions{}) {
		must(r, err)
		fmt.Fprintf(&b, "%x = %x\n", e.Key, e.Value)
	}
	must(r, view.Close())
	if b.Len() == 0 {
		r.Error("there are no rows")
	}
	return b.String()
}
