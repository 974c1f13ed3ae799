package runnerproto_test

import (
	"fmt"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// An engine answers a runner that asks for a key.
func Example() {
	v, err := rp.ParseVersion("6") // protocol_version in the address that the runner connected to
	if err != nil {
		fmt.Println(err)
		return
	}
	frame, _ := rp.EngineBound.Append(nil, v, rp.KVRequest{Actor: "a1", ID: 7, Body: rp.KVGet{Keys: [][]byte{{1}}}})

	m, err := rp.EngineBound.Decode(v, frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	if q, ok := m.(rp.KVRequest); ok {
		if get, ok := q.Body.(rp.KVGet); ok {
			entries := []rp.KVEntry{{Key: get.Keys[0], Value: []byte("hi"), UpdatedAt: 1}}
			answer, err := rp.RunnerBound.Append(nil, v, rp.KVResponse{ID: q.ID, Body: rp.KVGot{Entries: entries}})
			fmt.Printf("%x %v\n", answer, err)
		}
	}
	// Output: 0307000000010101010102686901000100000000000000 <nil>
}

// An engine answers an envoy that asks for a page of a database that is empty.
func Example_envoy() {
	v, err := rp.ParseEnvoyVersion("8") // protocol_version in the address that the envoy connected to
	if err != nil {
		fmt.Println(err)
		return
	}
	frame, _ := rp.EngineBound.Append(nil, v, rp.GetPages{Actor: "a1", ID: 7, Numbers: []uint32{1}})

	m, err := rp.EngineBound.Decode(v, frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	if q, ok := m.(rp.GetPages); ok {
		result := rp.Pages{Pages: []rp.Page{{Number: q.Numbers[0]}}, Head: rp.Some[uint64](0)}
		answer, err := rp.RunnerBound.Append(nil, v, rp.Reply[rp.Pages]{ID: q.ID, Result: result})
		fmt.Printf("%x %v\n", answer, err)
	}
	// Output: 060700000000010100000000010000000000000000 <nil>
}
