//go:build !wasip1

package guest_test

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/host/guest"
	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// TestEncodings: what a module keeps or returns of these types has the form in which it goes to
// the host.
func TestEncodings(t *testing.T) {
	raw := []byte{0xfb, 0x42, 0x78, 0xbc, 0xfe, 0x56, 0x80, 0x00, 0x00} // 1.7e12, which isn't a bigint
	for name, v := range map[string]struct{ guest, host any }{
		"value":           {guest.Raw(raw), abi.Raw(raw)},
		"no value":        {[]guest.Raw{nil}, []abi.Raw{nil}},
		"value in a list": {[]guest.Raw{raw}, []abi.Raw{raw}},
		"error":           {&guest.Error{Code: "c", Message: "m"}, &abi.Fault{Code: "c", Message: "m"}},
		"entry":           {guest.Entry{Key: raw, Value: raw}, abi.Entry{Key: raw, Value: raw}},
		"options": {guest.ListOptions{Prefix: raw, Start: raw, End: raw, Reverse: true, Limit: 1, KeysOnly: true},
			abi.ListOptions{Prefix: raw, Start: raw, End: raw, Reverse: true, Limit: 1, KeysOnly: true}},
		"no options": {guest.ListOptions{}, abi.ListOptions{}},
	} {
		got, err1 := guest.Encode(v.guest)
		want, err2 := abi.Encode(v.host)
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, %v, want %x, %v", name, got, err1, want, err2)
		}
	}
	var got guest.Raw
	if err := guest.Raw(raw).Decode(&got); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("decoded: %x, %v", got, err)
	}
	var list []guest.Raw
	if err := (guest.Raw(append([]byte{0x81}, raw...))).Decode(&list); err != nil || len(list) != 1 || !bytes.Equal(list[0], raw) {
		t.Errorf("decoded in a list: %x, %v", list, err)
	}
}
