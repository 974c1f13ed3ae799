// Command mattn is a peer of bench's SQLite lines: github.com/mattn/go-sqlite3, SQLite in C
// through cgo, on a file in WAL mode with synchronous=FULL.
//
//	mattn FILE insert|bulk|point|range|scan ROWS
//
// It reads numbers from its standard input, one a line. For each it does as many operations
// and prints the number. It ends with its input. The program that measures it takes the
// time between. Without a C compiler it does not build.
package main

import (
	"context"
	"fmt"
	"os"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/greenroomdb/greenroom/bench/peers/internal/files"
)

// driver is what github.com/mattn/go-sqlite3 calls itself.
const driver = "sqlite3"

func main() {
	if err := files.Serve(context.Background(), driver, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mattn:", err)
		os.Exit(1)
	}
}
