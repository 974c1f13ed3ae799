package actorstore_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestRegistryGolden: the rows of a store byte for byte, keys and values. They will not
// change: stores have them.
func TestRegistryGolden(t *testing.T) {
	const (
		own   = "02677265656e726f6f6d00" + "1501"
		idHex = "00112233445566778899aabbccddeeff0007"
	)
	h := layout.Head{Epoch: 1, Seq: 2, Used: 3, Last: kv.CommitID{4, 15: 5}, Created: 6}
	n := layout.Named{ID: layout.ID(testID), Created: 7}
	o := layout.Owner{Host: actorstore.HostID{8, 15: 9}, Nonce: [8]byte{10, 7: 11}}
	want := [][2]string{
		{own + "14", "0100" + "0c00000000000000"},
		{own + "1501" + "4001" + idHex,
			"0100" + "0100000000000000" + "0200000000000000" + "0300000000000000" + "04000000000000000000000000000005" + "0600000000000000"},
		{own + "1501" + "4001" + idHex + "1501", "6c6fc3a9"},
		{own + "1501" + "4001" + idHex + "1502", "0100" + "08000000000000000000000000000009" + "0a0000000000000b"},
		{own + "1502" + "026c6f00ff00", "0100" + "00112233445566778899aabbccddeeff" + "0700" + "0700000000000000"},
		{own + "1503" + "0108" + strings.Repeat("00ff", 14) + "0900", "ab"},
	}
	eng := memkv.New()
	ops := []kv.Op{
		kv.Set(layout.FormatKey(), layout.AppendFormat(nil, 12)), kv.Set(layout.RecordKey(layout.ID(testID), layout.PartHead), h.Append(nil)),
		kv.Set(layout.RecordKey(layout.ID(testID), layout.PartName), []byte("loé")), kv.Set(layout.RecordKey(layout.ID(testID), layout.PartOwner), o.Append(nil)),
		kv.Set(layout.NameKey("lo\x00"), n.Append(nil)), kv.Set(layout.HostKey(o.Host), []byte{0xab}),
	}
	must(t, eng.Commit(ctx, &kv.Commit{Ops: ops}))
	i := 0
	for e, err := range eng.Scan(ctx, kv.Range{}) {
		must(t, err)
		if k, v := hex.EncodeToString(e.Key), hex.EncodeToString(e.Value); i >= len(want) || k != want[i][0] || v != want[i][1] {
			t.Errorf("row %d is %s %s, want %v", i, k, v, want[min(i, len(want)-1)])
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d rows, want %d", i, len(want))
	}
	// And back, as typed keys.
	got, err := keys.Get(ctx, eng, layout.NameRow{Name: "lo\x00"})
	if got != n || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, n)
	}
	head, err := layout.ParseHead(layout.ID(testID), ops[1].Value)
	if head != h || err != nil {
		t.Errorf("got %+v, %v, want %+v", head, err, h)
	}
	owner, err := layout.ParseOwner(layout.ID(testID), ops[3].Value)
	if owner != o || err != nil {
		t.Errorf("got %+v, %v, want %+v", owner, err, o)
	}
}
