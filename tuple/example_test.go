package tuple_test

import (
	"bytes"
	"fmt"

	"github.com/greenroomdb/greenroom/tuple"
)

func ExampleTuple_Pack() {
	key := tuple.Tuple{"user", 7, tuple.Tuple{nil, true}}.Pack()
	fmt.Printf("%x\n", key)
	// Output: 02757365720015070500ff2700
}

func ExampleAppend() {
	key, err := tuple.Append(nil, tuple.Tuple{"user", int8(7)})
	fmt.Println(key, err)
	// Output: [] tuple: element can't be packed: type int8
}

func ExampleUnpack() {
	t, err := tuple.Unpack([]byte{0x02, 'a', 0x00, 0x15, 0x07})
	fmt.Println(t, err)
	_, err = tuple.Unpack([]byte{0x15})
	fmt.Println(err)
	// Output:
	// [a 7] <nil>
	// tuple: malformed: cut short
}

// Keys on hot paths are built and taken apart without a Tuple.
func ExampleNextInt() {
	key := tuple.AppendInt(tuple.AppendString(nil, "queue"), 42)
	name, rest, err := tuple.Next(key)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, rest, err := tuple.NextInt(rest)
	fmt.Println(name, id, len(rest), err)
	// Output: queue 42 0 <nil>
}

func ExampleCompare() {
	a, b := tuple.Tuple{"a", 2}, tuple.Tuple{"a", 10}
	fmt.Println(tuple.Compare(a, b), bytes.Compare(a.Pack(), b.Pack()))
	// Output: -1 -1
}

func ExampleSubspace() {
	users := tuple.NewSubspace(tuple.Tuple{"users"})
	key := users.Pack(tuple.Tuple{"ada", 1})
	t, err := users.Unpack(key)
	fmt.Println(t, err)
	begin, end := users.Range()
	fmt.Printf("%q %q\n", begin, end)
	// Output:
	// [ada 1] <nil>
	// "\x02users\x00\x00" "\x02users\x00\xff"
}

func ExamplePackWithVersionstamp() {
	key, err := tuple.PackWithVersionstamp([]byte("log"), tuple.Tuple{tuple.IncompleteVersionstamp(1)})
	fmt.Printf("%x %v\n", key, err)
	// Output: 6c6f6733ffffffffffffffffffff000104000000 <nil>
}
