package main

import (
	"context"
	"path/filepath"
	"strconv"
)

// speedtestLines is sqlite/speedtest1: SQLite's own measure of a bit of everything, in a new
// database each time. It is compiled into go-sqlite3's build of SQLite, but reached only from
// below that module's path: both sides are a program of another module.
// See https://sqlite.org/cpu.html.
func speedtestLines(engine string) []line {
	dir, ok := peersDir()
	if !ok {
		return nil
	}
	subject := "greenroom-" + engine
	var lines []line
	for _, peer := range []string{fileDeleteFull, memoryVFS} {
		lines = append(lines, line{"sqlite/speedtest1", "run/s", speedtestSide(dir, subject), speedtestSide(dir, peer)})
	}
	return lines
}

// speedtestSide has the program work in the place called name.
func speedtestSide(dir, name string) side {
	return side{name, func(ctx context.Context, at site) (runner, error) {
		where, err := filepath.Abs(at.dir)
		if err != nil {
			return nil, err
		}
		p, err := openPeer(ctx, at, dir, "speedtest", name, strconv.Itoa(at.sizes.speedtest), where, at.url)
		if err != nil {
			return nil, err
		}
		return p, nil
	}}
}
