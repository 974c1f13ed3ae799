// Command modernc is a peer of bench's SQLite lines: modernc.org/sqlite, SQLite translated
// from C to Go, on a file in WAL mode with synchronous=FULL.
//
//	modernc FILE insert|bulk|point|range|scan ROWS
//
// It reads numbers from its standard input, one a line. For each it does as many
// operations and prints the number. It ends with its input. The program that measures it
// takes the time between.
package main

import (
	"context"
	"fmt"
	"os"

	_ "modernc.org/sqlite" // the driver

	"github.com/greenroomdb/greenroom/bench/peers/internal/files"
)

// driver is what modernc.org/sqlite calls itself.
const driver = "sqlite"

func main() {
	if err := files.Serve(context.Background(), driver, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "modernc:", err)
		os.Exit(1)
	}
}
