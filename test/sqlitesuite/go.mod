// Module zzkvtest runs the stress programs that SQLite's own developers use over Greenroom's VFS. Its path is below
// go-sqlite3's because the programs are reached through internal packages of that module; nobody can or should import it.
module github.com/ncruces/go-sqlite3/zzkvtest

go 1.26.0

replace github.com/greenroomdb/greenroom => ../..

require github.com/ncruces/go-sqlite3 v0.35.6 // the SQLite that is stressed, and the drivers of its stress programs

require (
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
