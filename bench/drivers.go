package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// Other SQLite drivers for Go, on a file in WAL mode with synchronous=FULL.
const (
	modernc = "modernc-wal-full" // SQLite translated from C to Go
	mattn   = "mattn-wal-full"   // SQLite in C, through cgo
)

// driverLines compare an actor's database with files of other drivers. Those are programs of
// bench/peers, and work through database/sql as their users do. There are none where their
// source isn't.
func driverLines(engine string) []line {
	dir, ok := peersDir()
	if !ok || engine == enginePostgres {
		return nil
	}
	measured := map[string]string{ // and what the programs call them
		"sqlite/insert-1": "insert", "sqlite/bulk": "bulk", "sqlite/point": "point", "sqlite/range": "range", "sqlite/scan": "scan",
	}
	var lines []line
	for _, w := range workloads() {
		name, ok := measured[w.name]
		if !ok {
			continue
		}
		for _, d := range []struct{ peer, program string }{{modernc, "modernc"}, {mattn, "mattn"}} {
			lines = append(lines, line{w.name, w.unit, w.side("greenroom-" + engine), driverSide(dir, d.peer, d.program, name)})
		}
	}
	return lines
}

// driverSide is a driver's program doing the workload that it calls name.
func driverSide(dir, peer, program, name string) side {
	return side{peer, func(ctx context.Context, at site) (runner, error) {
		file, err := filepath.Abs(filepath.Join(at.dir, "bench.db"))
		if err != nil {
			return nil, err
		}
		rows := map[string]int{"bulk": at.sizes.bulk, "point": at.sizes.point, "range": at.sizes.point, "scan": at.sizes.scan}[name]
		p, err := openPeer(ctx, at, dir, program, file, name, fmt.Sprint(rows))
		if err != nil {
			return nil, err
		}
		return p, nil
	}}
}
