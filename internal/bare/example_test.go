package bare_test

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A message with its version, written and read field by field.
func Example() {
	b := bare.AppendVersion(nil, 1)
	b = bare.AppendString(b, "tasks")
	b = bare.AppendBool(b, true) // the optional is present
	b = bare.AppendU32(b, 3)
	fmt.Printf("%x\n", b)

	version, body, err := bare.Version(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := bare.NewReader(body)
	name := r.String()
	var attempts uint32
	if r.Bool() {
		attempts = r.U32()
	}
	fmt.Println(version, name, attempts, r.Done())
	// Output:
	// 0100057461736b730103000000
	// 1 tasks 3 <nil>
}

// Damage is an error that says where.
func ExampleReader_Done() {
	r := bare.NewReader([]byte{0x80, 0x00})
	r.Uint()
	fmt.Println(r.Done())
	// Output: bare: malformed at byte 0: uint is not in its shortest form
}
